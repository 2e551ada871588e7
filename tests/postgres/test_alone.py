"""A daemon that starts alone judges what it finds open; one that starts beside others leaves it to them."""

import signal

from tests.postgres.conftest import MakeDaemon
from tests.support import postgres
from tests.support.client import Http
from tests.support.definitions import read, write
from tests.support.flow import Flow, Lease, Run, make_flow
from tests.support.wait import eventually, moment


def lease_at(http: Http, lease: Lease) -> Lease:
    """The lease as its holder has it who now talks to another daemon."""
    return Lease(http, lease.data)


def test_one_that_starts_alone_takes_back_what_had_not_started(make_daemon: MakeDaemon) -> None:
    first = make_daemon().start()
    work, failing = make_flow(Http(first.url), write()), make_flow(Http(first.url), read(), on_restart="fail")
    run, lease = work.begin()
    goes = failing.start()
    first.kill()
    second = make_daemon().start()
    http = Http(second.url)
    view = Run(http, goes.id, goes.started).view()
    assert (view["status"], view["error"]["class"]) == ("failed", "server_restarted")
    lease_at(http, lease).heartbeat(started=True).expect_refusal("lease_lost")
    again = Flow(http, work.name, work.registered).claim_one()
    assert (again.attempt, again.fence) == (1, lease.fence + 2)
    assert Run(http, run.id, run.started).types().count("execution.recovered") <= 1


def test_one_that_starts_beside_another_leaves_its_leases_alone(make_daemon: MakeDaemon) -> None:
    first = make_daemon().start()
    _, lease = make_flow(Http(first.url), write(), on_restart="fail").begin()
    second = make_daemon().start()
    assert lease_at(Http(second.url), lease).heartbeat(started=True).expect(200)["cancel"] is None
    assert lease.complete("done").expect(200)["execution"]["status"] == "completed"


def test_one_that_starts_waits_for_another_that_is_still_judging(
    make_daemon: MakeDaemon, database: postgres.Database
) -> None:
    place = database.query("select hashtextextended('stepd ' || current_schema(), 0)")[0][0]
    with postgres.holding(database.daemon_url, f"select pg_advisory_lock({place})"):
        waiting = make_daemon().launch()
        eventually(
            lambda: database.query("select 1 from pg_stat_activity where application_name = 'stepd: hears'"),
            what="it asks for its place",
        )
        assert not waiting.is_ready()
        assert not waiting.has_ended()
    eventually(waiting.is_ready, seconds=20, what="it serves once the other lets it in")


def test_one_that_stops_makes_room_at_once(make_daemon: MakeDaemon) -> None:
    first = make_daemon("--drain-seconds", "0").start()
    run = make_flow(Http(first.url), read(), on_restart="fail").start()
    first.signal(signal.SIGTERM)
    assert first.ended(10) == 0
    second = make_daemon().start()
    assert Run(Http(second.url), run.id, run.started).view()["status"] == "failed"


def test_one_that_stops_waits_for_no_lease_that_others_hand_out_meanwhile(make_daemon: MakeDaemon) -> None:
    first, second = make_daemon("--drain-seconds", "60").start(), make_daemon().start()
    work = make_flow(Http(second.url), read())
    _, before = work.begin()
    first.signal(signal.SIGTERM)
    eventually(lambda: Http(first.url).get("/readyz").status == 503)
    moment(0.5)  # it has looked
    _, meanwhile = work.begin()
    assert not first.has_ended()
    lease_at(Http(first.url), before).complete().expect(200)
    assert first.ended(10) == 0
    meanwhile.complete().expect(200)


def test_one_that_starts_before_its_server_waits_for_it(make_daemon: MakeDaemon) -> None:
    server = postgres.Cluster()
    try:
        postgres.prepare(server)
        url = postgres.make_in(server, "stepd_later").daemon_url
        server.stop()
        daemon = make_daemon(url=url).launch()
        eventually(lambda: "opening the database: the store is away" in daemon.output(), what="it says so")
        assert not daemon.has_ended()
        server.start()
        eventually(daemon.is_ready, seconds=20, what="it serves")
    finally:
        server.close()
