"""What a daemon finds open when it starts alone, by the execution's `on_restart`: each cell of the table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.client import Http, Json
from tests.support.daemon import Daemon
from tests.support.definitions import AT_ONCE, read, safe_write, write
from tests.support.flow import Flow, Lease, Run, make_flow

POLICIES = ("fail", "retry", "resume")
STEPS: dict[str, Json] = {
    "read": read(retry=AT_ONCE),
    "read at most once": read(delivery="at_most_once", retry=AT_ONCE),
    "safe write": safe_write(retry=AT_ONCE),
    "write": write(retry=AT_ONCE),
}


@dataclass(frozen=True, slots=True)
class Found:
    """An execution as it was left, and the lease that was open in it."""

    work: Flow
    run: Run
    lease: Lease | None = None


def leave(http: Http, policy: str, found: str) -> Found:
    """Brings an execution into the state that the restarted daemon is to find."""
    what, _, how = found.partition(": ")
    work = make_flow(http, STEPS.get(how, STEPS["safe write"]), on_restart=policy)
    if what == "scheduled":
        return Found(work, work.start(start_at="2100-01-01T00:00:00Z"))
    run = work.start()
    if what == "queued":
        return Found(work, run)
    if what == "paused":
        run.pause().expect(202)
        return Found(work, run)
    lease = work.claim_one()
    if what == "waiting":
        lease.fail("retryable", effect="none", retry_after=60).expect(200)
    if what in ("running", "cancelling", "reconciliation"):
        lease.begin()
    if what == "cancelling":
        run.cancel().expect(202)
    if what == "reconciliation":
        lease.fail("fatal").expect(200)
    return Found(work, run, lease)


STATES = (
    "scheduled",
    "queued",
    "waiting",
    "paused",
    "leased: write",
    "leased: read at most once",
    "running: read",
    "running: read at most once",
    "running: safe write",
    "running: write",
    "cancelling",
    "reconciliation",
)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Found]]:
    """All states under all policies, after a kill and a start on the same file."""
    file: Path = tmp_path_factory.mktemp("restart") / "stepd.db"
    daemon = Daemon(file).start()
    try:
        http = Http(daemon.url)
        left = {(policy, state): leave(http, policy, state) for policy in POLICIES for state in STATES}
        daemon.kill()
        daemon.start()
        yield left
    finally:
        daemon.close()


EXPECTED: dict[str, dict[str, str]] = {
    "scheduled": dict.fromkeys(POLICIES, "scheduled"),
    "queued": {"fail": "failed", "retry": "queued", "resume": "queued"},
    "waiting": {"fail": "failed", "retry": "waiting", "resume": "waiting"},
    "paused": dict.fromkeys(POLICIES, "paused"),
    "leased: write": {"fail": "failed", "retry": "running", "resume": "running"},
    "leased: read at most once": {"fail": "failed", "retry": "running", "resume": "running"},
    "running: read": {"fail": "failed", "retry": "running", "resume": "running"},
    "running: read at most once": {"fail": "failed", "retry": "failed", "resume": "running"},
    "running: safe write": {"fail": "reconciliation_required", "retry": "running", "resume": "running"},
    "running: write": {"fail": "reconciliation_required", "retry": "reconciliation_required", "resume": "running"},
    "cancelling": dict.fromkeys(POLICIES, "cancelling"),
    "reconciliation": dict.fromkeys(POLICIES, "reconciliation_required"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("state", STATES)
def test_the_execution_is_what_its_policy_says(
    restarted: dict[tuple[str, str], Found], policy: str, state: str
) -> None:
    found = restarted[policy, state]
    view = found.run.view()
    assert view["status"] == EXPECTED[state][policy], view
    found.run.events()
    if policy == "fail" and view["status"] in ("failed", "reconciliation_required") and state != "reconciliation":
        assert view["error"]["class"] == "server_restarted"


@pytest.mark.parametrize("policy", ["retry", "resume"])
@pytest.mark.parametrize("state", ["leased: write", "leased: read at most once"])
def test_what_had_not_started_is_queued_again_unspent(
    restarted: dict[tuple[str, str], Found], policy: str, state: str
) -> None:
    found = restarted[policy, state]
    assert found.lease is not None
    found.lease.heartbeat(started=True).expect_refusal("lease_lost")
    again = found.work.claim_one()
    assert again.attempt == 1
    assert again.fence > found.lease.fence
    again.begin().complete().expect(200)
    assert found.run.view()["status"] == "completed"


@pytest.mark.parametrize("state", ["running: read", "running: safe write"])
def test_under_retry_what_may_be_repeated_is_taken_back_now(
    restarted: dict[tuple[str, str], Found], state: str
) -> None:
    found = restarted["retry", state]
    assert found.lease is not None
    found.lease.heartbeat().expect_refusal("lease_lost")
    again = found.work.claim_one()
    assert again.attempt == 2
    again.complete().expect(200)
    assert "attempt.lost" in found.run.types()


@pytest.mark.parametrize(
    "state", ["running: read", "running: read at most once", "running: safe write", "running: write"]
)
def test_under_resume_a_running_body_goes_on(restarted: dict[tuple[str, str], Found], state: str) -> None:
    found = restarted["resume", state]
    assert found.lease is not None
    assert found.lease.heartbeat().expect(200)["cancel"] is None
    assert found.lease.complete("done").expect(200)["late"] is False
    assert found.run.view()["status"] == "completed"
    assert found.run.types().count("attempt.leased") == 1


@pytest.mark.parametrize("state", ["running: safe write", "running: write"])
def test_under_fail_a_write_in_flight_is_uncertain_at_once(restarted: dict[tuple[str, str], Found], state: str) -> None:
    found = restarted["fail", state]
    assert found.lease is not None
    assert found.run.step()["status"] == "uncertain"
    found.lease.complete("too late").expect_refusal("lease_lost")
    assert "attempt.stale_outcome" in found.run.types()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_write_that_was_asked_to_stop_still_tells_how_it_ended(
    restarted: dict[tuple[str, str], Found], policy: str
) -> None:
    found = restarted[policy, "cancelling"]
    assert found.lease is not None
    assert found.lease.heartbeat().expect(200)["cancel"]["reason"]
    found.lease.fail("cancelled", effect="none").expect(200)
    assert found.run.view()["status"] == "cancelled"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_paused_one_is_resumed_as_ever(restarted: dict[tuple[str, str], Found], policy: str) -> None:
    found = restarted[policy, "paused"]
    found.work.assert_idle()
    found.run.resume().expect(202)
    found.work.claim_one().complete().expect(200)
    assert found.run.view()["status"] == "completed"


@pytest.mark.parametrize("policy", ["retry", "resume"])
def test_what_was_queued_is_claimed(restarted: dict[tuple[str, str], Found], policy: str) -> None:
    found = restarted[policy, "queued"]
    lease = found.work.claim_one()
    assert lease.attempt == 1
    lease.complete().expect(200)
    assert found.run.view()["status"] == "completed"


@pytest.mark.parametrize("state", ["queued", "waiting", "leased: write"])
def test_under_fail_nothing_is_left_to_claim(restarted: dict[tuple[str, str], Found], state: str) -> None:
    found = restarted["fail", state]
    found.work.assert_idle(max=10)
    assert found.run.statuses() == {"work": "cancelled"}
    assert found.run.types()[-1] == "execution.failed"


def test_a_start_s_own_policy_wins(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "stepd.db").start()
    try:
        work = make_flow(Http(daemon.url), read(), on_restart="resume")
        kept, failed = work.start(), work.start(on_restart="fail")
        daemon.kill()
        daemon.start()
        assert (kept.view()["status"], failed.view()["status"]) == ("queued", "failed")
    finally:
        daemon.close()
