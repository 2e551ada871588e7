"""`stepd audit`: what it asks for, and how the log reads; with a real daemon, and with a scripted one."""

import json
from urllib.parse import parse_qsl

from tests.cli.answers import page
from tests.cli.program import Program
from tests.sdk.peer import Peer
from tests.support.client import Http
from tests.support.definitions import read
from tests.support.flow import make_flow

ENTRY = {
    "id": "7",
    "at": "2026-11-30T12:00:00.000Z",
    "principal": "ops",
    "key_id": "k-1",
    "action": "execution.cancel",
    "target": "e-1",
    "tenant": None,
    "origin": "127.0.0.1",
    "outcome": "refused: already_ended",
}


def test_what_was_done_is_shown_newest_first(real: Program, http: Http) -> None:
    run = make_flow(http, read()).start()
    run.cancel().expect(202)
    run.cancel().expect_problem(409, "already_ended")
    head, *rows = real("audit", "--target", run.id).expect(0).lines
    assert head.split() == ["at", "principal", "key", "action", "target", "tenant", "from", "outcome"]
    assert [row.split()[4] for row in rows] == ["execution.cancel", "execution.cancel", "execution.start"]
    assert [row.split(maxsplit=8)[8] for row in rows] == ["refused: already_ended", "done", "done"]
    (refused,) = json.loads(real("audit", "--target", run.id, "--outcome", "refused", "--json").expect(0).out)["items"]
    assert refused["outcome"] == "refused: already_ended"


def test_it_goes_on_where_a_page_ended(real: Program, http: Http) -> None:
    run = make_flow(http, read()).start()
    run.cancel().expect(202)
    first = real("audit", "--target", run.id, "--limit", "1").expect(0)
    assert "execution.cancel" in first.lines[1]
    cursor = first.err.rpartition(" ")[2].strip()
    assert first.err == f"There are more: stepd audit --cursor {cursor}\n"
    assert "execution.start" in real("audit", "--cursor", cursor).expect(0).lines[1]
    assert real("audit", "--target", "nothing-of-that-name").expect(0).err == "No entries.\n"


def test_all_its_filters_reach_the_daemon(peer: Peer, stepd: Program) -> None:
    peer.always("audit", page(ENTRY))
    given = {
        "principal": "ops",
        "key-id": "k-1",
        "action": "execution.cancel",
        "target": "e-1",
        "tenant": "acme",
        "outcome": "refused",
        "after": "2026-11-30T11:00:00Z",
        "before": "2026-11-30T13:00:00Z",
        "limit": "7",
    }
    result = stepd("audit", *(word for name, value in given.items() for word in (f"--{name}", value))).expect(0)
    assert "2026-11-30 12:00:00Z  ops" in result.lines[1]
    (call,) = peer.named("audit")
    renamed = {"key-id": "key_id", "after": "at_after", "before": "at_before"}
    asked = dict(parse_qsl(call.path.partition("?")[2]))
    assert asked == {renamed.get(name, name): value for name, value in given.items()}


def test_what_can_not_be_asked_is_refused_before_the_call(peer: Peer, stepd: Program) -> None:
    assert "must be one of: done, refused" in stepd("audit", "--outcome", "maybe").expect(64).err
    assert "--after" in stepd("audit", "--after", "yesterday").expect(64).err
    assert not peer.named("audit")


def test_a_name_that_looks_like_a_command_of_the_terminal_is_harmless(peer: Peer, stepd: Program) -> None:
    evil = "\x1b[31mx\x1b]0;t\x07\u202e"
    peer.always("audit", page({**ENTRY, "principal": evil, "target": evil, "origin": evil, "tenant": evil}, after=evil))
    for result in (stepd("audit"), stepd.on_terminal("audit", columns=200)):
        assert r"\x1b[31mx" in result.expect(0).plain
        assert "\x1b]0;" not in result.out
        assert "\u202e" not in result.out + result.err
