"""The waits between sends: their bounds, and what a Retry-After may say."""

from collections.abc import Callable

import pytest

from stepd_worker.retry import Backoff, is_no_answer, retry_after_seconds


def test_waits_double_from_half_a_second_to_ten() -> None:
    backoff = Backoff(uniform=lambda low, high: 1.0)
    assert [backoff.delay_seconds() for _ in range(7)] == [0.5, 1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize(("edge", "share"), [(min, 0.8), (max, 1.2)])
def test_each_wait_is_jittered_by_a_fifth(edge: Callable[[float, float], float], share: float) -> None:
    backoff = Backoff(uniform=edge)
    assert [backoff.delay_seconds() for _ in range(6)] == [pytest.approx(share * s) for s in (0.5, 1, 2, 4, 8, 10)]


def test_retry_after_is_never_undercut() -> None:
    assert Backoff(uniform=min).delay_seconds("7") == 7
    assert Backoff(uniform=max).delay_seconds("7") == pytest.approx(8.4)


def test_an_answer_begins_the_waits_anew() -> None:
    backoff = Backoff(uniform=lambda low, high: 1.0)
    backoff.delay_seconds()
    backoff.reset()
    assert backoff.delay_seconds() == 0.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("3", 3),
        ("0.25", 0.25),
        ("1e18", 120),
        ("inf", 120),
        ("NaN", None),
        ("-1", None),
        ("soon", None),
        ("Mon, 30 Nov 2026 12:00:10 GMT", 10),
        ("Mon, 30 Nov 2026 11:00:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 120),
    ],
)
def test_what_a_retry_after_says(text: str | None, seconds: float | None) -> None:
    noon = 1796040000.0  # 2026-11-30T12:00:00Z
    assert retry_after_seconds(text, now=lambda: noon) == seconds


def test_which_statuses_say_send_it_again() -> None:
    assert [status for status in (200, 400, 401, 404, 408, 409, 422, 429, 500, 503) if is_no_answer(status)] == [
        408,
        429,
        500,
        503,
    ]
