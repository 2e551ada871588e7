"""A daemon killed and started again on its file: what stands, what is answered again, and which grace leases get."""

from uuid import uuid4

from tests.crash.conftest import MakeDaemon
from tests.support import raw
from tests.support.client import Http, Json
from tests.support.daemon import Daemon
from tests.support.definitions import AT_ONCE, read, safe_write, sleep_step, unique, wait, write
from tests.support.flow import Flow, make_flow
from tests.support.wait import moment


def restart(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start()


def flow_on(daemon: Daemon, *steps: Json, **fields: Json) -> Flow:
    return make_flow(Http(daemon.url), *steps, **fields)


def test_what_was_accepted_is_there(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read("a"), read("b"))
    key = unique("key")
    run = work.start(input={"x": 10**40}, headers={"Idempotency-Key": key})
    lease = work.claim_one()
    done = lease.complete("of a", state={"s": 1}).expect(200)
    before, events = run.view(include="attempts,payloads"), run.events()
    restart(daemon)
    after = run.view(include="attempts,payloads")
    for field in ("status", "input", "state", "revision", "created_at", "started_at"):
        assert after[field] == before[field], field
    assert run.events()[: len(events)] == events
    again = work.attempt_start(input={"x": 10**40}, headers={"Idempotency-Key": key})
    assert again.expect(202)["id"] == run.id
    assert again.headers["idempotency-replayed"] == "true"
    replay = lease.complete("of a", state={"s": 1}).expect(200)
    assert {**replay, "replayed": False} == done
    work.claim_one().complete("of b").expect(200)
    assert run.view()["status"] == "completed"


def test_a_claim_id_sent_again_to_a_restarted_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read())
    claim_id = str(uuid4())
    run = work.start()
    work.start()
    (first,) = work.claim(claim_id=claim_id)
    restart(daemon)
    (again,) = work.claim(claim_id=claim_id, max=5)
    assert (again.id, again.fence, again.data["execution"]["id"]) == (first.id, first.fence, run.id)
    again.complete("once").expect(200)
    assert work.claim(claim_id=claim_id) == []
    assert run.view()["status"] == "completed"


def test_a_claim_whose_answer_was_lost_with_the_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read())
    run = work.start()
    claim_id = str(uuid4())
    body = {"worker": "w", "claim_id": claim_id, "wait_seconds": 20, "serves": [{"workflow": work.name}]}
    sent = raw.send(work.http, "POST", "/v1/leases/claim", body)
    assert sent.has_answer(5)
    daemon.kill()
    sent.leave()
    daemon.start()
    (lease,) = work.claim(claim_id=claim_id)
    assert lease.attempt == 1
    lease.complete().expect(200)
    assert run.types().count("attempt.leased") == 1


def test_a_claim_id_that_was_dealt_none_waits_anew(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read())
    claim_id = str(uuid4())
    assert work.claim(claim_id=claim_id) == []
    restart(daemon)
    work.start()
    assert len(work.claim(claim_id=claim_id, wait_seconds=5)) == 1


def test_a_retry_and_a_scheduled_start_are_not_lost(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read(retry={"initial_seconds": 0.5, "factor": 1}))
    later, lease = work.begin()
    due = lease.fail("retryable", retry_after=300).expect(200)["next_attempt_at"]
    soon, lease = work.begin()
    lease.fail("retryable").expect(200)
    far = work.start(start_at="2100-01-01T00:00:00Z")
    restart(daemon)
    assert later.step()["next_attempt_at"] == due
    assert later.view()["status"] == "waiting"
    assert far.view()["status"] == "scheduled"
    again = work.claim_one(wait_seconds=10)
    assert (again.data["execution"]["id"], again.attempt) == (soon.id, 2)


def test_waits_their_signals_and_sleeps_are_not_lost(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(
        daemon,
        read("a", needs=[]),
        wait("kept", needs=["a"]),
        wait("armed", "come", needs=[]),
        wait("late", "never", needs=[], timeout_seconds=0.2, on_timeout="skip"),
        sleep_step("nap", needs=[], seconds=0.2),
    )
    run, lease = work.begin()
    key = unique("key")
    told = run.signal("go", 1, key=key).expect(202)
    daemon.kill()
    moment(0.3)
    daemon.start()
    assert run.signal("go", 1, key=key).expect(202) == told
    run.step_until("succeeded", id="nap", seconds=3)
    run.step_until("skipped", id="late", seconds=3)
    lease.complete().expect(200)
    assert run.statuses()["kept"] == "succeeded"
    run.signal("come").expect(202)
    assert run.view()["status"] == "completed"


def test_a_started_write_goes_on_and_its_worker_settles_it(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, write())
    run, lease = work.begin()
    lease.begin()
    restart(daemon)
    assert run.step()["status"] == "running"
    lease.heartbeat().expect(200)
    lease.complete("charged").expect(200)
    assert run.view()["status"] == "completed"


def test_an_outage_shorter_than_the_lease_is_nothing(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, safe_write(lease_seconds=30, retry=AT_ONCE))
    run, lease = work.begin()
    daemon.kill()
    moment(1)
    daemon.start()
    lease.complete().expect(200)
    assert "attempt.orphaned" not in run.types()


def test_a_daemon_can_be_killed_as_often_as_one_likes(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read("a"), read("b"), read("c"))
    run = work.start()
    for _ in "abc":
        restart(daemon)
        work.claim_one().complete().expect(200)
    restart(daemon)
    assert run.view()["status"] == "completed"
    assert run.types().count("step.succeeded") == 3


def test_registrations_and_the_current_version_are_kept(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    work = flow_on(daemon, read(), version="1")
    service = work.registered["service"]
    make_flow(work.http, read(), read("more"), name=work.name, version="2")
    work.http.post(f"/v1/workflows/{work.name}/current", {"version": "1"}).expect(200, 204)
    restart(daemon)
    assert work.start().view()["version"] == "1"
    assert work.attempt_claim().expect(200)["service"] == service, "it is the same service"
