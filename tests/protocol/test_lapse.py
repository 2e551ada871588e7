"""Leases that run out: an orphan first, taken back later, within a second of its time and with nobody claiming."""

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import ONCE, brief, cel, read, safe_write, write
from tests.support.flow import Run
from tests.support.times import seconds
from tests.support.wait import eventually, moment


def at(run: Run, type: str) -> str:
    """When the first event of this type was, once there is one."""

    def look() -> str | None:
        return next((event["at"] for event in run.events() if event["type"] == type), None)

    return str(eventually(look, what=f"{type} of {run.id}"))


def attempts(run: Run, step: str = "work") -> list[Json]:
    """The step's attempts as the view shows them."""
    view = run.view(include="attempts")
    return list(next(each for each in view["steps"] if each["id"] == step)["attempts"])


def test_an_orphan_is_marked_within_a_second_though_nobody_claims(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.3, 30)))
    run, lease = work.begin()
    marked = at(run, "attempt.orphaned")
    assert -0.01 <= seconds(lease.data["expires_at"], marked) <= 1.1
    assert run.step()["status"] == "running", "the step is still this attempt's"
    assert [attempt["status"] for attempt in attempts(run)] == ["orphaned"]
    work.assert_idle()


def test_an_orphan_is_taken_back_within_a_second_of_its_time(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.2, 0.6)))
    run, lease = work.begin()
    lost = at(run, "attempt.lost")
    assert 0.59 <= seconds(lease.data["expires_at"], lost) <= 1.7
    assert run.step()["status"] == "queued"
    assert run.types().index("attempt.orphaned") < run.types().index("attempt.lost")
    assert work.claim_one(wait_seconds=0).attempt == 2


def test_a_repeatable_step_is_queued_again_at_once(flow: MakeFlow) -> None:
    work = flow(safe_write(**brief(0.1, 0), retry={"initial_seconds": 60}))
    run, first = work.begin()
    second = work.claim_one()
    assert second.attempt == 2, "the attempt is spent, and lost waits for nothing"
    assert second.fence > first.fence
    assert "attempt.lost" in run.types()


def test_out_of_attempts_a_lost_write_is_uncertain(flow: MakeFlow) -> None:
    work = flow(safe_write(**brief(0.1, 0), retry=ONCE))
    run, _ = work.begin()
    view = run.until("reconciliation_required")
    assert view["steps"][0]["status"] == "uncertain"
    assert "step.uncertain" in run.types()


def test_a_lost_read_out_of_attempts_may_be_caught(flow: MakeFlow) -> None:
    work = flow(
        read(**brief(0.1, 0), retry=ONCE, catch=[{"class": "lost", "value": "gone"}]),
        output=cel("steps.work.output"),
    )
    run, _ = work.begin()
    assert run.until("completed")["output"] == "gone"


@pytest.mark.parametrize("step", [read(), safe_write(), write()])
def test_a_late_failure_is_judged_as_usual(flow: MakeFlow, step: Json) -> None:
    work = flow({**step, **brief(0.5)})
    run, lease = work.begin()
    lease.begin()
    at(run, "attempt.orphaned")
    answer = lease.fail("retryable", effect="none").expect(200)
    assert (answer["late"], answer["disposition"]) == (True, "retry_scheduled")
    types = run.types()
    assert types.index("attempt.orphaned") < types.index("attempt.late")


def test_a_heartbeat_in_time_saves_what_the_sweep_looks_at(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.9, 0)))
    run, lease = work.begin()
    for _ in range(6):
        moment(0.3)
        lease.heartbeat().expect(200)
    lease.complete().expect(200)
    assert "attempt.lost" not in run.types()


def test_each_attempt_keeps_its_own_history(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.5, 0), retry={"max_attempts": 4, "initial_seconds": 0}))
    run, _ = work.begin()
    work.claim_one(worker="second").fail("retryable").expect(200)
    work.claim_one(worker="third").fail("interrupted").expect(200)
    work.claim_one(worker="fourth").complete("x").expect(200)
    seen = [(attempt["worker"], attempt["status"]) for attempt in attempts(run)]
    assert seen == [("tester", "lost"), ("second", "failed"), ("third", "requeued"), ("fourth", "succeeded")]


def test_fences_only_grow(flow: MakeFlow) -> None:
    work = flow(read(retry={"max_attempts": 10, "initial_seconds": 0}))
    work.start()
    fences: list[int] = []
    for kind in ("interrupted", "retryable", "unservable", "interrupted", "retryable"):
        lease = work.claim_one(instance=f"i{len(fences)}")
        fences.append(lease.fence)
        lease.fail(kind).expect(200)
    assert fences == sorted(set(fences))


def test_many_leases_that_lapse_at_once_are_all_taken_back_in_time(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.3, 0)))
    runs = [work.start() for _ in range(60)]
    leases = work.claim(max=100)
    assert len(leases) == 60
    for run in runs:
        run.step_until("queued", seconds=5)
        assert seconds(leases[0].data["expires_at"], at(run, "attempt.lost")) <= 1.6
