"""What /metrics tells of a daemon at work, and that nobody can make it grow without end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

import pytest

from stepd.http.routes import ROUTES
from stepd.observing import WORKFLOWS_MAX
from stepd.telemetry.metrics import Metrics
from tests.faults.figures import Figures, figures
from tests.support.client import Answer, Http
from tests.support.daemon import running
from tests.support.definitions import read, unique
from tests.support.flow import claim, make_flow
from tests.support.stream import Stream
from tests.support.wait import beside, eventually


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with running(tmp_path_factory.mktemp("metrics") / "stepd.db") as daemon:
        yield Http(daemon.url)


def once(http: Http, name: str, value: float, **labels: str) -> Figures:
    """The figures once this one has this value: a look at the store is not made anew for each scrape."""
    found = [figures(http)]

    def has_it() -> bool:
        found.append(figures(http))
        return any(labels.items() <= line.labels.items() and line.value == value for line in found[-1].lines(name))

    eventually(has_it, what=f"{name}{labels} is {value}")
    return found[-1]


def test_every_figure_that_is_declared_is_scraped(http: Http) -> None:
    flow = make_flow(http, read())
    flow.start()
    once(http, "stepd_steps_queued", 1, workflow=flow.name)
    text = http.get("/metrics").text
    for declared in Metrics().declared:
        assert f"\n# TYPE {declared.name} {declared.kind}\n" in text, declared.name
        assert f"\n{declared.name}" in text.replace(f"# TYPE {declared.name}", ""), declared.name


def test_the_queue_is_told_by_workflow_with_what_nobody_serves(http: Http) -> None:
    served, blocked = make_flow(http, read()), make_flow(http, read())
    assert not claim(http, {"serves": [{"workflow": served.name}], "wait_seconds": 0}).expect(200)["leases"]
    for flow in (served, blocked, blocked):
        flow.start()
    seen = once(http, "stepd_steps_queued", 2, workflow=blocked.name)
    assert seen.value("stepd_steps_queued", workflow=served.name) == 1
    assert seen.value("stepd_steps_blocked", workflow=served.name) == 0
    assert seen.value("stepd_steps_blocked", workflow=blocked.name) == 2
    assert 0 < seen.value("stepd_steps_queued_oldest_seconds", workflow=blocked.name) < 60
    (lease,) = claim(http, {"serves": [{"workflow": served.name}]}).expect(200)["leases"]
    seen = once(http, "stepd_steps_queued", 0, workflow=served.name)
    assert seen.value("stepd_steps_queued_oldest_seconds", workflow=served.name) == 0
    assert seen.value("stepd_leases_held") >= 1
    http.post(f"/v1/leases/{lease['id']}/complete", {"fence": lease["fence"]}).expect(200)


def test_refused_calls_are_counted_by_reason(http: Http) -> None:
    flow = make_flow(http, read())
    run = flow.start()
    (lease,) = claim(http, {"serves": [{"workflow": flow.name}]}).expect(200)["leases"]
    path, before = f"/v1/leases/{lease['id']}", figures(http)
    http.post(f"{path}/complete", {"fence": lease["fence"] + 1}).expect_problem(409, "lease_refused")
    run.cancel().expect(202)
    http.post(f"{path}/heartbeat", {"fence": lease["fence"]}).expect_problem(409, "lease_refused")
    http.post(f"{path}/fail", {"fence": lease["fence"], "class": "fatal"}).expect_problem(409, "lease_refused")
    after = figures(http)
    for name, reason, more in (
        ("stepd_settlements_refused_total", "lease_lost", 1),
        ("stepd_settlements_refused_total", "execution_ended", 1),
        ("stepd_settlements_refused_total", "already_settled", 0),
        ("stepd_heartbeats_refused_total", "execution_ended", 1),
        ("stepd_heartbeats_refused_total", "lease_expired", 0),
    ):
        assert after.value(name, reason=reason) - before.value(name, reason=reason) == more, (name, reason)


def test_who_waits_is_counted(http: Http) -> None:
    flow = make_flow(http, read())
    run = flow.start()
    claims: list[Future[Answer]] = [
        beside(lambda: claim(http, {"serves": [{"workflow": unique()}], "wait_seconds": 60})) for _ in range(3)
    ]
    view = beside(lambda: http.get(f"{run.path}?wait_seconds=60"))
    with ExitStack() as streams:
        for _ in range(2):
            next(streams.enter_context(Stream(http, f"{run.path}/events")).messages())
        once(http, "stepd_claims_parked", 3)
        once(http, "stepd_views_waiting", 1)
        assert figures(http).value("stepd_streams_open") == 2
    once(http, "stepd_streams_open", 0)
    run.cancel().expect(202)
    view.result(10)
    once(http, "stepd_views_waiting", 0)
    assert not any(one.done() for one in claims)


def test_the_loops_and_the_event_loop_are_watched(http: Http) -> None:
    seen = once(http, "stepd_background_failures_total", 0, loop="pulse")
    for loop in ("pulse", "keys", "sweeper", "courier", "retention", "lag"):
        assert seen.value("stepd_background_rounds_total", loop=loop) > 0
    eventually(lambda: figures(http).value("stepd_event_loop_lag_seconds_count") > 2)


def test_a_hostile_caller_cannot_make_it_grow(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        http = Http(daemon.url)
        for number in range(WORKFLOWS_MAX + 10):
            make_flow(http, read(), name=f"w-{number}").start()
        once(http, "stepd_steps_queued", 10, workflow="other")
        _be_hostile(http, "a")
        size = len(once(http, "stepd_workers_live", 10).all)
        _be_hostile(http, "b")
        seen = once(http, "stepd_workers_live", 20)
        assert len(seen.all) == size
        named = {line.labels["workflow"] for line in seen.lines("stepd_steps_queued")}
        assert len(named) == WORKFLOWS_MAX + 1
        operations = {line.labels["operation"] for line in seen.lines("stepd_http_requests_total")}
        assert operations <= {route.name for route in ROUTES} | {"none"}


def _be_hostile(http: Http, mark: str) -> None:
    """Whatever a caller can name is new each time."""
    for number in range(10):
        flow = make_flow(http, read(f"step-{mark}{number}"), name=f"more-{mark}{number}")
        run = flow.start(tenant=f"tenant-{mark}{number}", correlation="c", labels={f"k{mark}{number}": "v"})
        claim(http, {"serves": [{"workflow": flow.name}], "worker": f"worker-{mark}{number}"}).expect(200)
        run.cancel().expect(202)
        http.get(f"/v1/executions?{unique()}=1")
        http.get(f"/v1/{unique()}/{unique()}")
        http.send(f"BREW{mark.upper()}{number}", "/v1/executions")


def test_a_workflow_called_other_is_one_of_the_others(http: Http) -> None:
    make_flow(http, read(), name="other").start()
    seen = once(http, "stepd_steps_queued", 1, workflow="other")
    names = [line.labels["workflow"] for line in seen.lines("stepd_steps_queued")]
    assert len(names) == len(set(names))
