"""Ids: UUIDv7 that only grow, whatever the clock does."""

import re
import uuid

from stepd.ids import DAY_MS, Sequence, attempts_near, new_id, new_span_id

LATER = 2_000_000_000_000


def test_an_id_is_a_version_7_uuid_with_the_time_in_front() -> None:
    made = uuid.UUID(Sequence().next(LATER))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == LATER


def test_ids_grow_as_text_within_a_millisecond() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_ids_grow_although_the_clock_steps_back() -> None:
    sequence = Sequence()
    made = [sequence.next(LATER - step) for step in range(100)]
    assert made == sorted(set(made))


def test_ids_of_one_millisecond_can_not_be_counted_off() -> None:
    first, second = (uuid.UUID(id_).int for id_ in map(Sequence().next, (LATER, LATER)))
    assert first != second
    sequence = Sequence()
    steps = {uuid.UUID(sequence.next(LATER)).int for _ in range(100)}
    assert len({later - earlier for earlier, later in zip(sorted(steps), sorted(steps)[1:], strict=False)}) == 99


def test_a_millisecond_that_runs_out_borrows_from_the_next() -> None:
    sequence = Sequence()
    sequence.next(LATER)
    sequence._tail = (1 << 74) - 1
    following = uuid.UUID(sequence.next(LATER))
    assert following.int >> 80 == LATER + 1


def test_span_ids_are_sixteen_hex_digits() -> None:
    attempt = new_id()
    made = {new_span_id(attempt) for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch("[0-9a-f]{16}", id_) for id_ in made)


def test_a_span_id_tells_between_which_ids_its_attempt_stands() -> None:
    for ms in (LATER, (1 << 41) - 1, 1 << 41):
        attempt = Sequence().next(ms)
        for now in (ms, ms + 300 * DAY_MS, ms - DAY_MS):
            low, high = attempts_near(new_span_id(attempt), now)
            assert low < attempt < high
            assert not low < Sequence().next(ms + 1) < high


def test_any_sixteen_hex_digits_may_be_asked_for() -> None:
    for span_id in ("0" * 15 + "1", "f" * 16, "8000000000" + "0" * 6):
        low, high = attempts_near(span_id, LATER)
        assert low < high
