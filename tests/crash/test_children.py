"""A daemon killed between what happens to a parent and what happens to its child: nothing is lost or doubled."""

from tests.crash.conftest import MakeDaemon
from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.definitions import cel, read
from tests.support.flow import Run, make_flow

PARENTS = 8


def kill_and_start(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start()


def test_every_parent_has_one_child_and_hears_of_its_end(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    http = Http(daemon.url)
    child = make_flow(http, read(), output=cel("steps.work.output"))
    sub = {"id": "sub", "kind": "workflow", "workflow": child.name}
    parent = make_flow(http, sub, output=cel("steps.sub.output"))
    runs: list[Run] = []
    for _ in range(2):
        runs += [parent.start() for _ in range(PARENTS // 2)]
        kill_and_start(daemon)
    for lease in [child.claim_one() for _ in runs]:
        lease.complete(lease.data["execution"]["id"]).expect(200)
    kill_and_start(daemon)
    for run in runs:
        output = run.until("completed")["output"]
        assert run.event("child.started")["data"]["execution"] == output
        assert run.event("child.ended")["data"]["execution"] == output
    children = child.list()["items"]
    assert sorted(one["parent"]["execution"] for one in children) == sorted(run.id for run in runs)


def test_a_cancel_reaches_the_child_of_a_daemon_that_was_killed(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    http = Http(daemon.url)
    child = make_flow(http, read())
    run = make_flow(http, {"id": "sub", "kind": "workflow", "workflow": child.name}).start()
    child.claim_one()
    run.cancel().expect(202)
    kill_and_start(daemon)
    run.until("cancelled")
    assert [one["status"] for one in child.list()["items"]] == ["cancelled"]
