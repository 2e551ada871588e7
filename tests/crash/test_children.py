"""A daemon killed between what happens to a parent and what happens to its child: nothing is lost or doubled."""

from tests.crash.conftest import MakeDaemon
from tests.support.client import Http
from tests.support.definitions import cel, read
from tests.support.flow import make_flow
from tests.support.money import usage, used

PARENTS = 6


def test_every_parent_has_one_child_and_each_hears_of_the_other_s_end(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    http = Http(daemon.url)
    child = make_flow(http, read(), output=cel("steps.work.output"))
    sub = {"id": "sub", "kind": "workflow", "workflow": child.name}
    parent = make_flow(http, sub, output=cel("steps.sub.output"))
    runs = {run.id: run for run in [parent.start() for _ in range(PARENTS)]}
    daemon.kill()
    daemon.start()
    leases = [child.claim_one() for _ in runs]
    parents = {one["id"]: one["parent"]["execution"] for one in child.list()["items"]}
    assert sorted(parents.values()) == sorted(runs)
    given_up, *others = [(lease, lease.data["execution"]["id"]) for lease in leases]
    for lease, id_ in others:
        lease.complete(id_, usage=[usage("m", 5)]).expect(200)
    runs[parents[given_up[1]]].cancel().expect(202)
    daemon.kill()
    daemon.start()
    for _, id_ in others:
        run = runs[parents[id_]]
        assert run.until("completed")["output"] == id_
        assert run.event("child.started")["data"]["execution"] == id_
        assert run.event("child.ended")["data"]["execution"] == id_
        assert used(run)["input_tokens"] == 5
    runs[parents[given_up[1]]].until("cancelled")
    assert http.get(f"/v1/executions/{given_up[1]}").expect(200)["status"] == "cancelled"
    assert len(child.list()["items"]) == PARENTS
