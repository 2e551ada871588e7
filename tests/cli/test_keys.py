"""`stepd keys`: the first key, others made with it, what is listed, and how one is taken away, with a real daemon."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.sdk.peer import DROPPED, Peer, Reply
from tests.support.client import Http
from tests.support.daemon import Daemon, running

KEY = {
    "id": "k-1",
    "name": "billing",
    "scopes": ["worker"],
    "tenants": ["acme"],
    "created_at": "2026-11-30T12:00:00.000Z",
    "revoked_at": None,
}


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that had no key when it started."""
    with running(tmp_path_factory.mktemp("keys") / "stepd.db") as started:
        yield started


@pytest.fixture(scope="module")
def admin(unlocked: Daemon) -> Program:
    """The program with the first key, made by itself."""
    program = Program(unlocked.url)
    refused = program("keys", "new", "w", "--scope", "worker").expect(65)
    assert "/scopes: must have admin in the first key" in refused.err
    made = program("keys", "new", "root", "--scope", "admin").expect(0)
    (secret,) = made.lines
    assert secret not in made.err
    assert "root (admin; tenants: all). It is not shown again." in made.err
    program("keys", "ls").expect(77)
    return Program(unlocked.url, secret)


def listed(program: Program, *arguments: str) -> list[dict[str, Any]]:
    page = json.loads(program("keys", "ls", "--json", *arguments).expect(0).out)
    assert page["next"] is None
    items: list[dict[str, Any]] = page["items"]
    return items


def test_a_key_is_made_listed_used_and_revoked(unlocked: Daemon, admin: Program) -> None:
    made = admin("keys", "new", "hand", "--scope", "worker", "--scope", "read", "--tenant", "a", "--tenant", "b")
    (secret,) = made.expect(0).lines
    assert Http(unlocked.url, secret).get("/v1/workers").status == 200
    (row,) = [line.split() for line in admin("keys", "ls").expect(0).lines if " hand " in line]
    assert row[1:6] == ["hand", "worker,", "read", "a,", "b"]
    told = admin("keys", "revoke", row[0]).expect(0)
    assert told.out == f"The key {row[0]} is revoked.\n"
    Http(unlocked.url, secret).get("/v1/workers").expect_problem(401, "unauthenticated")
    assert row[0] not in admin("keys", "ls").expect(0).out
    (line,) = [line for line in admin("keys", "ls", "--all").expect(0).lines if row[0] in line]
    assert "revoked 20" in line
    assert secret not in admin("keys", "ls", "--all", "--json").out


def test_with_json_a_program_gets_all_of_it(unlocked: Daemon, admin: Program) -> None:
    made = json.loads(admin("keys", "new", "eye", "--scope", "read", "--json").expect(0).out)
    assert Http(unlocked.url, made["secret"]).get("/v1/executions").status == 200
    (found,) = [key for key in listed(admin) if key["id"] == made["id"]]
    assert found == {name: value for name, value in made.items() if name != "secret"}
    assert json.loads(admin("keys", "revoke", made["id"], "--json").expect(0).out) == {
        "id": made["id"],
        "revoked": True,
    }
    assert made["id"] not in {key["id"] for key in listed(admin)}
    assert made["id"] in {key["id"] for key in listed(admin, "--all")}


def test_what_is_wrong_is_said(admin: Program) -> None:
    assert "/scopes" in admin("keys", "new", "x", "--scope", "root").expect(65).err
    assert "/name" in admin("keys", "new", "no name", "--scope", "read").expect(65).err
    assert "names one twice" in admin("keys", "new", "x", "--scope", "read", "--scope", "read").expect(65).err
    assert "no key with the id" in admin("keys", "revoke", "nothing").expect(66).err
    admin("keys", "new", "x").expect(64)


def test_the_last_key_that_can_administer_is_not_revoked_by_the_way(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        made = json.loads(Program(daemon.url)("keys", "new", "root", "--scope", "admin", "--json").expect(0).out)
        admin = Program(daemon.url, made["secret"])
        assert "--force" in admin("keys", "revoke", made["id"]).expect(65).err
        second = json.loads(admin("keys", "new", "root", "--scope", "admin", "--json").expect(0).out)
        admin("keys", "revoke", made["id"]).expect(0)
        admin("keys", "ls").expect(77)
        heir = Program(daemon.url, second["secret"])
        heir("keys", "revoke", second["id"], "--force").expect(0)
        heir("keys", "ls").expect(77)
        Program(daemon.url)("ls").expect(77)


def test_a_key_whose_answer_was_lost_is_not_asked_for_again(peer: Peer, stepd: Program) -> None:
    peer.script("keys", DROPPED, Reply(201, KEY | {"secret": "s"}))
    stepd("keys", "new", "billing", "--scope", "worker").expect(69)
    assert len(peer.calls) == 1


def test_all_pages_are_listed(peer: Peer, stepd: Program) -> None:
    peer.script(
        "keys",
        Reply(200, {"items": [KEY], "next": "c/1"}),
        Reply(200, {"items": [KEY | {"id": "k-0", "tenants": ["*"]}], "next": None}),
    )
    assert [line.split() for line in stepd("keys", "ls").expect(0).lines] == [
        ["id", "name", "scopes", "tenants", "created"],
        ["k-1", "billing", "worker", "acme", "2026-11-30", "12:00:00Z"],
        ["k-0", "billing", "worker", "all", "2026-11-30", "12:00:00Z"],
    ]
    assert [call.path for call in peer.calls] == ["/v1/admin/keys?limit=200", "/v1/admin/keys?limit=200&cursor=c%2F1"]


def test_without_keys_the_way_to_the_first_is_told(peer: Peer, stepd: Program) -> None:
    peer.always("keys", Reply(200, {"items": [], "next": None}))
    result = stepd("keys", "ls").expect(0)
    assert (result.out, result.err) == ("", "No keys. Make the first one with: stepd keys new NAME --scope admin\n")


def test_nothing_in_a_key_acts_on_the_terminal(peer: Peer, stepd: Program) -> None:
    evil = "\x1b[2J\u202e\r"
    hostile = KEY | {"id": evil, "name": evil, "scopes": [evil], "tenants": [evil], "created_at": evil}
    peer.always("keys", Reply(200, {"items": [hostile], "next": None}))
    for text in (stepd("keys", "ls").expect(0).out, stepd("keys", "ls", "--json").expect(0).out):
        assert all(line.isprintable() for line in text.split("\n"))
    peer.scripts.clear()
    peer.always("keys", Reply(201, hostile | {"secret": evil}))
    made = stepd("keys", "new", "x", "--scope", "read").expect(0)
    assert all(line.isprintable() for line in f"{made.out}{made.err}".split("\n"))
