"""Trace context: a caller's is gone on with, and where there is none the execution's id makes one."""

import pytest

from stepd.engine.pieces import execution_span_id
from stepd.service.traces import lease_traceparent, read_traceparent
from tests.service.rows import EXECUTION_ID, execution

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        GIVEN + "-more",
        GIVEN + "\n",
        GIVEN[:-1],
        "01" + GIVEN[2:] + "-" + "x" * 600,
    ],
)
def test_what_is_no_trace_context_is_passed_over(text: str | None) -> None:
    assert read_traceparent(text) is None


def test_a_later_version_is_read_as_the_first() -> None:
    assert read_traceparent(GIVEN) == GIVEN
    assert read_traceparent("01" + GIVEN[2:] + "-more") == GIVEN


def test_a_lease_hangs_in_its_caller_s_trace() -> None:
    assert lease_traceparent(execution(traceparent=GIVEN), "b7ad6b7169203331") == (
        "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-00"
    )


def test_without_one_the_execution_makes_its_own() -> None:
    row = execution()
    digits = EXECUTION_ID.replace("-", "")
    assert lease_traceparent(row, "b7ad6b7169203331") == f"00-{digits}-b7ad6b7169203331-01"
    assert read_traceparent(f"00-{digits}-{execution_span_id(row)}-01") is not None
