"""The command line against a real daemon: each ending with its exit code, journals as they grow, a daemon that comes
back, keys."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program, Result
from tests.support.client import Http
from tests.support.daemon import Daemon, free_port, running
from tests.support.definitions import cel, read, unique, wait, write
from tests.support.flow import Flow, Lease, make_flow, register
from tests.support.wait import beside


@pytest.fixture
def flow(http: Http) -> Flow:
    """A workflow of one step that reads."""
    return make_flow(http, read(), output={"$cel": "steps.work.output"})


def test_start_and_wait_until_it_is_completed(real: Program, flow: Flow) -> None:
    run = beside(lambda: real("start", flow.name, "--input", '{"n": 1.0}', "--label", "team=blue", "--wait"))
    lease = flow.claim_one(wait_seconds=20)
    assert lease.data["input"] == {"n": 1.0}
    assert lease.data["execution"]["labels"] == {"team": "blue"}
    lease.complete({"done": True}).expect(200)
    result = run.result(30).expect(0)
    assert result.lines[0] == lease.data["execution"]["id"]
    assert "attempt 1 running on tester" in result.out
    assert result.lines[-1] == 'output  {"done": true}'


def test_signals_and_events_resume_what_waits(real: Program, http: Http) -> None:
    order = unique()
    flow = make_flow(http, wait("a"), wait("b"), output={"$cel": "[steps.a.output, steps.b.output]"})
    run = flow.start(correlation=order)
    assert real("signal", run.id, "go", "--payload", '{"n": 1}').expect(0).out == "queued\n"
    assert real("publish", "go", order, "--payload", "2").expect(0).out == "delivered to 1 execution\n"
    assert run.view()["output"] == [{"n": 1}, 2]
    assert "has ended" in real("signal", run.id, "go").expect(65).err


def test_one_that_nobody_serves_says_so(real: Program, flow: Flow) -> None:
    watch = real.launch("start", flow.name, "--wait")
    assert watch.stdout is not None
    _read_until(watch.stdout, "blocked: no_worker")
    flow.claim_one().complete().expect(200)
    said, _ = watch.communicate(timeout=30)
    assert watch.returncode == 0, said


@pytest.mark.parametrize("arguments", [["--wait"], ["--wait", "--json"]])
def test_one_that_failed_ends_with_1(real: Program, flow: Flow, arguments: list[str]) -> None:
    run = beside(lambda: real("start", flow.name, *arguments))
    flow.claim_one(wait_seconds=20).fail("card_declined").expect(200)
    assert "card_declined" in run.result(30).expect(1).out


def test_one_that_was_cancelled_ends_with_2(real: Program, flow: Flow) -> None:
    run = beside(lambda: real("start", flow.name, "--wait"))
    execution = flow.claim_one(wait_seconds=20).data["execution"]["id"]
    assert real("cancel", execution, "--reason", "nobody\nwants it").expect(0).out == "cancelled\n"
    assert "cancel asked for: nobody\\nwants it" in run.result(30).expect(2).out
    assert "ended" in real("cancel", execution).expect(65).err


def test_one_that_needs_reconciliation_ends_with_3(real: Program, http: Http) -> None:
    flow = make_flow(http, write("non_idempotent_write"))
    run = beside(lambda: real("start", flow.name, "--wait"))
    flow.claim_one(wait_seconds=20).begin().fail("fatal").expect(200)
    result = run.result(30).expect(3)
    assert "uncertain" in result.out
    assert real("watch", result.lines[0]).expect(3).lines == result.lines[1:]


def test_pause_resume_and_what_is_shown_of_them(real: Program, flow: Flow) -> None:
    execution = real("start", flow.name, "--correlation", "order 7").expect(0).out.strip()
    assert real("pause", execution).expect(0).out == "paused\n"
    listed = real("ls", "--workflow", flow.name, "--status", "paused", "--correlation", "order 7").expect(0)
    assert [line.split()[:4] for line in listed.lines[1:]] == [[execution, flow.name, flow.version, "paused"]]
    assert real("resume", execution).expect(0).out == "queued\n"
    flow.claim_one().complete({"n": 1}).expect(200)
    assert real("pause", execution).expect(65).out == ""
    shown = real("show", execution, "--attempts", "--payloads").expect(0).out
    assert "work  attempt 1  succeeded  on tester" in shown
    assert '  work  output  {"n": 1}' in shown
    assert "correlation  order 7" in shown


def test_events_follow_the_journal_to_its_end(real: Program, flow: Flow) -> None:
    run = flow.start()
    following = beside(lambda: real("events", run.id, "--follow", "--json"))
    flow.claim_one().complete().expect(200)
    followed = [json.loads(line) for line in following.result(30).expect(0).lines]
    assert followed == run.events()
    stored = real("events", run.id).expect(0).lines
    assert [line.split()[2] for line in stored] == [event["type"] for event in followed]


def test_following_survives_a_stop_of_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        flow = make_flow(Http(daemon.url), read())
        run = flow.start()
        following = Program(daemon.url).launch("events", run.id, "--follow", "--json")
        assert following.stdout is not None
        seen = [json.loads(following.stdout.readline()) for _ in run.events()]
        daemon.kill()
        daemon.start()
        flow.claim_one().complete().expect(200)
        out, said = following.communicate(timeout=30)
        assert following.returncode == 0, said
        seen += [json.loads(line) for line in out.splitlines()]
        assert seen == run.events(), "each event once, in order"
        assert said.count("stepd: no answer, going on as soon as there is one") == len(said.splitlines()) == 1


def test_following_one_on_a_daemon_that_is_not_there_ends_at_once() -> None:
    result = Program(f"http://127.0.0.1:{free_port()}")("events", "some-id", "--follow").expect(69)
    assert len(result.err.splitlines()) == 1


def test_lists_go_on_where_a_page_ended(real: Program, flow: Flow) -> None:
    started = [flow.start().id for _ in range(5)]
    seen: list[str] = []
    arguments = ["--workflow", flow.name, "--limit", "2", "--oldest"]
    while arguments:
        page = json.loads(real("ls", *arguments, "--json").expect(0).out)
        seen += [item["id"] for item in page["items"]]
        arguments = ["--cursor", page["next"]] if page["next"] else []
    assert seen == started


def test_workflows_shows_versions_and_use_chooses_one(real: Program, http: Http) -> None:
    name = unique()
    for version in ("1", "2"):
        register(http, name, {"version": version, "steps": [read(retry={"max_attempts": int(version)})]}).expect(201)
    assert "current" in _row(real("workflows"), name, "2")
    real("workflows", "use", name, "1").expect(0)
    assert "current" in _row(real("workflows"), name, "1")
    assert "no" in _row(real("workflows"), name, "1"), "no worker serves it"
    assert real("workflows", "use", name, "3").expect(66).out == ""


def test_simulate_shows_the_path_and_starts_nothing(real: Program, http: Http) -> None:
    route = {"id": "route", "kind": "decision", "rules": [{"id": "high", "when": "steps.fetch.output > 1", "then": 1}]}
    wait = {"id": "ok", "kind": "wait", "event": "approved"}
    work = make_flow(http, read("fetch"), route, wait, updates=[{"path": "/seen", "value": cel("steps.ok.output.by")}])
    given = ["--step", 'fetch=[{"fail": {"class": "retryable"}}, {"output": 3}]', "--signal", 'approved={"by": "ann"}']
    lines = [" ".join(line.split()) for line in real("simulate", work.name, *given).expect(0).lines]
    assert lines[0].startswith(f"{work.name} {work.version} completed ")
    assert lines[1:] == [
        "step status attempts output",
        "✓ fetch succeeded 2 3",
        "✓ route succeeded 1",
        '✓ ok succeeded {"by": "ann"}',
        "rules route: high (first)",
        'update /seen = "ann"',
        'state {"seen": "ann"}',
    ]
    answer = json.loads(real("simulate", work.name, *given, "--json").expect(0).out)
    assert answer["state"] == {"seen": "ann"}
    assert "stands here for ever" in real("simulate", work.name, "--steps", '{"fetch": {"output": 3}}').expect(0).out
    assert work.list()["items"] == []
    assert real("simulate", work.name, "--step", "fetch=x").expect(64).out == ""
    assert real("simulate", work.name, "--step", "other=null").expect(65).out == ""


def test_what_is_not_there_and_what_is_wrong_is_said(real: Program, http: Http) -> None:
    assert real("show", "nobody").expect(66).err.startswith("stepd: ")
    assert real("start", "no-such-workflow").expect(66).out == ""
    flow = make_flow(http, read(), input_schema={"type": "object", "required": ["amount"]})
    assert "amount" in real("start", flow.name, "--input", "{}").expect(65).err
    assert "/labels" in real("start", flow.name, "--label", "no name=x").expect(65).err


def test_a_watch_goes_on_when_the_daemon_comes_back(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "stepd.db")
    try:
        http = Http(daemon.start().url)
        flow = make_flow(http, read())
        watch = Program(daemon.url).launch("start", flow.name, "--wait")
        lease = flow.claim_one(wait_seconds=20)
        assert watch.stdout is not None
        _read_until(watch.stdout, "running on tester")
        daemon.kill()
        _read_until(watch.stdout, "no answer, trying again")
        daemon.start()
        lease.complete().expect(200)
        said, trouble = watch.communicate(timeout=60)
        assert watch.returncode == 0, said + trouble
        assert "execution  completed" in said
        assert trouble == ""
    finally:
        daemon.close()


def test_keys_are_asked_for_and_their_scopes_are_told(tmp_path: Path) -> None:
    reader, admin = secrets.token_hex(16), secrets.token_hex(16)
    env = {"STEPD_ADMIN_KEYS": f"boss={admin}", "STEPD_READ_KEYS": f"eye={reader}"}
    with running(tmp_path / "stepd.db", env=env) as daemon:
        assert "STEPD_KEY" in Program(daemon.url)("ls").expect(77).err
        assert Program(daemon.url, reader)("ls").expect(0).err == "No executions.\n"
        refused = Program(daemon.url, reader)("start", "jobs").expect(77).err
        assert "execute" in refused
        assert reader not in refused
        listed = Program(daemon.url)("workflows", "--key", admin).expect(0)
        assert (listed.out, listed.err) == ("", "No workflows: a worker registers those that it holds.\n")


def test_texts_that_a_terminal_would_obey_are_shown_by_a_real_run(real: Program, flow: Flow) -> None:
    evil = "\x1b[31m[red]\u202e\r"
    run = flow.start(correlation=evil, labels={"a": evil}, input={evil: evil})
    lease: Lease = flow.claim_one()
    lease.http.post(f"/v1/leases/{lease.id}/fail", _failure(lease, evil)).expect(200)
    for result in (
        real("watch", run.id),
        real("show", run.id),
        real("events", run.id),
        real("ls", "--workflow", flow.name),
    ):
        assert r"\x1b[31m[red]\u202e" in result.out or r"\u001b[31m[red]\u202e" in result.out
        assert all(line.isprintable() for line in result.out.split("\n"))


def _failure(lease: Lease, message: str) -> dict[str, Any]:
    return {"fence": lease.fence, "class": "fatal", "message": message}


def _row(result: Result, name: str, version: str) -> list[str]:
    """The words of a version's row."""
    (row,) = [line.split() for line in result.expect(0).lines if line.split()[:2] == [name, version]]
    return row


def _read_until(stream: Any, part: str) -> None:
    for line in stream:
        if part in line:
            return
    raise AssertionError(f"the output ended before {part!r}")
