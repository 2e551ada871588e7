"""Closing what needs reconciliation; the ledger, the keys and the operators of all resolutions."""

from __future__ import annotations

import msgspec
import pytest

from stepd.engine import commands as c
from stepd.engine.resolutions import KeyUsed, Resolved
from tests.engine.test_endings import leased, step
from tests.engine.test_resolving import doubtful
from tests.engine.world import ACTOR, World, result

# -- close -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verification", ["absent_verified", "compensated_verified", "accepted"])
@pytest.mark.parametrize("cancel", [False, True])
def test_close_ends_it_with_the_verification_as_class(verification: str, cancel: bool) -> None:
    world = doubtful()
    revision = world.execution.revision
    if cancel:
        world.cancel()
    answer = world.close(verification)
    assert answer.status == ("cancelled" if cancel else "failed")
    assert answer.standing_writes == (("pay",) if verification == "accepted" else ())
    assert world.status("pay") == "failed"
    assert msgspec.json.decode(world.row("pay").error or b"{}")["class"] == verification
    assert (world.execution.revision, "outcome" in world.payloads) == (revision, False)
    assert world.types()[-1] == f"execution.{answer.status}"


@pytest.mark.parametrize(
    ("verification", "standing"), [("absent_verified", None), ("compensated_verified", ()), ("accepted", ("a", "pay"))]
)
def test_close_where_a_write_stands(verification: str, standing: tuple[str, ...] | None) -> None:
    world = World({"steps": [step("a", "idempotent_write"), step("pay", "non_idempotent_write")]})
    world.complete(leased(world, "a"))
    world.fail(leased(world, "pay"), "fatal")
    answer = world.close(verification)
    if standing is None:
        assert (answer.code, world.execution.status) == ("not_resolvable", "reconciliation_required")
    else:
        assert (answer.status, answer.standing_writes) == ("failed", standing)


# -- the ledger, keys, operators ---------------------------------------------------------------------------------------


def test_a_resolution_stands_in_the_ledger_and_in_the_journal() -> None:
    world = doubtful()
    world.resume_with(result("pay", "absent"))
    (row,) = world.ledger.values()
    assert (row.execution_id, row.operator, row.key, row.at) == ("execution", "operator", "key-1", world.now)
    (event,) = [event for event in world.events if event.type == "execution.resolved"]
    assert msgspec.json.decode(event.data) == {
        "action": "resume",
        "results": [{"step": "pay", "index": None, "outcome": "absent"}],
        "anew": [],
        "operator": "operator",
        "evidence": {"reference": "case 4711", "reason": "seen in the provider's ledger"},
    }


def test_the_same_key_command_and_operator_get_the_first_answer_again_for_ever() -> None:
    world = doubtful()
    first = world.resume_with(result("pay", "absent"), key="k")
    world.complete(leased(world, "pay"))
    world.complete(leased(world, "tell"))
    seq = world.execution.seq
    again = world.resume_with(result("pay", "absent"), key="k")
    assert again == msgspec.structs.replace(first, replayed=True)
    assert world.resume_with(result("pay", "succeeded"), key="k") == KeyUsed()
    assert world.resume_with(result("pay", "absent"), key="k", operator="another") == KeyUsed()
    assert (world.execution.seq, len(world.ledger)) == (seq, 1)


def test_of_two_operators_one_wins() -> None:
    world = doubtful()
    assert isinstance(world.resume_with(result("pay", "absent"), operator="one"), Resolved)
    answer = world.close(operator="two")
    assert (answer.code, answer.status) == ("not_resolvable", "running")


@pytest.mark.parametrize("status", ["running", "paused", "completed"])
def test_nothing_else_can_be_resolved(status: str) -> None:
    world = World({"steps": [step("a")]})
    attempt = leased(world, "a")
    if status == "paused":
        world.run(c.Pause(ACTOR))
    if status == "completed":
        world.complete(attempt)
    assert world.close().code == "not_resolvable"
    assert world.ledger == {}


@pytest.mark.parametrize("verification", ["compensated_verified", "accepted"])
def test_close_where_an_item_is_uncertain(verification: str) -> None:
    world = World({"steps": [step("pay", "non_idempotent_write", foreach="[1, 2, 3]")]})
    attempts = [leased(world, "pay") for _ in range(3)]
    world.complete(attempts[0])
    world.fail(attempts[1], "fatal", "unknown")
    world.complete(attempts[2])
    answer = world.close(verification)
    assert (answer.status, world.status("pay")) == ("failed", "failed")
    assert answer.standing_writes == (("pay",) if verification == "accepted" else ())
    assert [row.status for row in world.steps.values() if row.index >= 0] == ["succeeded", "failed", "succeeded"]
