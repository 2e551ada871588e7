"""Names and closed lists: the rule holds to the last character, and each list is what the protocol says."""

import re
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepd_protocol import names, reasons
from stepd_protocol.names import Name, is_name

FIRST = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
NAMES = st.builds(str.__add__, st.sampled_from(FIRST), st.text(FIRST + "._:-", max_size=127))


@given(NAMES)
def test_a_name_is_taken(text: str) -> None:
    assert is_name(text)
    assert msgspec.convert(text, Name) == text


@given(NAMES, st.sampled_from(["\n", "\r", "\x00", " ", "ä", "٣", "/"]))
def test_one_wrong_character_is_seen_at_either_end(text: str, wrong: str) -> None:
    for candidate in (text[:127] + wrong, wrong + text[:127]):
        assert not is_name(candidate)


@given(st.text(max_size=140))
def test_the_type_and_the_function_agree(text: str) -> None:
    try:
        msgspec.convert(text, Name)
        taken = True
    except msgspec.ValidationError:
        taken = False
    assert taken == is_name(text)


@pytest.mark.parametrize("text", ["", "a" * 129, "-a", ".a", ":a", "_a", "a\n"])
def test_what_is_no_name(text: str) -> None:
    assert not is_name(text)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, Name)


def test_the_published_pattern_is_plain() -> None:
    assert re.search(names.NAME_PATTERN, "support-3")
    assert "?!" not in names.NAME_PATTERN


def test_the_four_reasons_stand_in_their_order() -> None:
    assert reasons.REASONS == ("already_settled", "execution_ended", "lease_lost", "lease_expired")


def test_the_lists_have_no_entry_twice() -> None:
    assert len(names.EXECUTION_STATUSES) == 11
    assert len(names.STEP_STATUSES) == 11
    assert len(names.ATTEMPT_STATUSES) == 8
    assert len(names.DAEMON_CLASSES) == 14
    assert len(names.EVENT_TYPES) == len(set(names.EVENT_TYPES)) == 40
    assert set(names.EXECUTION_STATUSES) > names.ENDED_STATUSES


def test_a_class_of_the_daemon_is_a_name_and_none_that_workers_use() -> None:
    assert all(is_name(name) for name in names.DAEMON_CLASSES)
    assert not names.DAEMON_CLASSES & {"retryable", "unservable", "interrupted", "cancelled", "fatal", "invalid_output"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    probe = "import sys; before = set(sys.modules); import stepd_protocol; print(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["stepd_protocol"]
