"""What lasts long is told in pieces: each once, none longer than the bound, linked, and nothing where nothing was."""

from __future__ import annotations

from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.engine.model import Attempt
from stepd.engine.pieces import NO_ATTEMPT, Piece, Told, execution_span_id, is_piece, piece_span_id, read_piece
from stepd.engine.work import Changes
from tests.engine.world import ACTOR, World

STEPS = {
    "steps": [
        {"id": "a", "effect": "read_only", "lease_seconds": 10_000},
        {"id": "nap", "kind": "sleep", "seconds": 100_000},
    ]
}
LENGTH = 900_000
BEGAN = 1_000_000


class Watched(World):
    """Keeps what it was told of pieces."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.told: list[Told] = []
        self.kept: dict[tuple[str, str], Piece] = {}
        super().__init__(definition, now=BEGAN)

    def apply(self, changes: Changes) -> None:
        super().apply(changes)
        self.told += changes.pieces
        for row in changes.spans:
            assert is_piece(row.body)
            assert not row.fresh, "its piece is told already"
            self.kept[(row.attempt_id, row.span_id)] = read_piece(row.body)

    def pieces(self, *, attempt: bool) -> list[Piece]:
        return [told.piece for told in self.told if (told.attempt is not None) == attempt]


@pytest.fixture
def world() -> Watched:
    return Watched(STEPS)


def working(world: Watched) -> Attempt:
    granted = world.claim("a")
    assert granted is not None
    return granted.attempt


def test_what_is_short_is_one_piece_told_at_its_end(world: Watched) -> None:
    attempt = working(world)
    world.now += 5
    world.heartbeat(attempt)
    assert world.told == []
    world.complete(attempt, 1)
    assert world.pieces(attempt=True) == [Piece(BEGAN, BEGAN + 5, is_last=True)]
    assert world.told[0].step == "a"
    assert world.kept == {}
    world.run(c.Cancel(ACTOR, None, force=False))
    assert world.pieces(attempt=False) == [Piece(BEGAN, BEGAN + 5, is_last=True)]


def test_a_long_body_is_told_while_it_works_and_so_is_its_execution(world: Watched) -> None:
    attempt = working(world)
    for _ in range(4):
        world.now += LENGTH // 2
        world.heartbeat(attempt)
    first = Piece(BEGAN, BEGAN + LENGTH)
    second = Piece(BEGAN + LENGTH, BEGAN + 2 * LENGTH, before=BEGAN)
    assert world.pieces(attempt=True) == world.pieces(attempt=False) == [first, second]
    world.now += 7
    world.complete(attempt, 1)
    third = Piece(BEGAN + 2 * LENGTH, BEGAN + 2 * LENGTH + 7, before=BEGAN + LENGTH, is_last=True)
    assert world.pieces(attempt=True) == [first, second, third]
    whole = execution_span_id(world.execution)
    assert world.kept == {
        (attempt.id, attempt.span_id): first,
        (attempt.id, piece_span_id(attempt.span_id, BEGAN + LENGTH, BEGAN)): second,
        (NO_ATTEMPT, whole): first,
        (NO_ATTEMPT, piece_span_id(whole, BEGAN + LENGTH, BEGAN)): second,
    }


def test_where_nothing_happens_there_is_no_piece(world: Watched) -> None:
    world.complete(working(world), 1)
    world.now += 10 * LENGTH + 3
    world.run(c.Cancel(ACTOR, None, force=False))
    last = BEGAN + 10 * LENGTH
    assert world.pieces(attempt=False) == [
        Piece(BEGAN, BEGAN + LENGTH),
        Piece(last, last + 3, before=BEGAN, is_last=True),
    ]


def test_what_has_ended_is_told_no_more(world: Watched) -> None:
    attempt = working(world)
    world.run(c.Cancel(ACTOR, None, force=False))
    told = list(world.told)
    assert [piece.is_last for piece in world.pieces(attempt=False)] == [True]
    world.now += 3 * LENGTH
    world.complete(attempt, 1)
    world.run(c.Cancel(ACTOR, None, force=False))
    assert world.told == told


def test_a_clock_that_steps_back_makes_no_piece_that_ends_before_it_begins(world: Watched) -> None:
    attempt = working(world)
    world.now -= 50
    world.complete(attempt, 1)
    assert world.pieces(attempt=True) == [Piece(BEGAN, BEGAN, is_last=True)]
