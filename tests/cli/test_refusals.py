"""What is said when a command can't be done: the thing, the value, the way out, and an exit code of its own."""

import json

import pytest

from tests.cli.answers import ID
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply, problem
from tests.support.daemon import free_port


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["strat"], "Did you mean 'start'"),
        (["start"], "WORKFLOW"),
        (["show"], "ID"),
        (["ls", "--limit", "0"], "--limit"),
        (["ls", "--label", "team"], "'team' must look like key=value"),
        (["ls", "--created-after", "yesterday"], "'yesterday' must be an RFC 3339 time"),
        (["start", "jobs", "--start-at", "2026-11-30"], "--start-at"),
        (["start", "jobs", "--input", "{n: 1}"], "{n: 1} is no JSON"),
        (["start", "jobs", "--input", "\x1b[31m"], r"\x1b[31m is no JSON"),
        (["start", "jobs", "--input", "-"], "Standard input is no JSON"),
        (["start", "jobs", "--state", "[1]"], "must be an object"),
        (["publish", "paid"], "name one correlation"),
        (["publish", "paid", "order 17", "--correlation", "order 18"], "name one correlation"),
        (["start", "jobs", "--label", "a=1", "--label", "a=2"], "'a' is given twice"),
        (["ls", "--url", "localhost:7117"], "must look like http://127.0.0.1:7117"),
    ],
)
def test_a_command_line_that_cannot_be_read_ends_with_64(
    peer: Peer, stepd: Program, arguments: list[str], said: str
) -> None:
    result = stepd(*arguments).expect(64)
    assert said in result.err
    assert result.out == ""
    assert peer.calls == []


def test_a_file_that_cannot_be_read_ends_with_66(stepd: Program) -> None:
    result = stepd("start", "jobs", "--input", "@/no/such/file.json").expect(66)
    assert "/no/such/file.json" in result.err
    assert "--input" in result.err


def test_where_no_daemon_answers_it_says_what_to_do_and_ends_with_69() -> None:
    nobody = Program(f"http://127.0.0.1:{free_port()}")
    result = nobody("ls").expect(69)
    assert nobody.url in result.err
    assert "Is `stepd serve` running" in result.err
    assert "STEPD_URL" in result.err
    assert json.loads(nobody("ls", "--json").expect(69).err)["code"] == "unreachable"


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (problem(401, "unauthenticated"), 77, "STEPD_KEY"),
        (problem(403, "forbidden", scope="read"), 77, "STEPD_KEY"),
        (problem(404, "not_found"), 66, "test: not_found."),
        (Reply(404, b"<html>It works!</html>"), 69, "Is that a stepd daemon?"),
        (problem(409, "already_ended"), 65, "stepd show"),
        (problem(503, "unavailable"), 69, "try again"),
        (problem(500, "internal_error"), 70, "test: internal_error."),
    ],
)
def test_each_kind_of_refusal_has_its_code_and_its_way_out(
    peer: Peer, stepd: Program, reply: Reply, code: int, said: str
) -> None:
    peer.always("cancel", reply)
    result = stepd("cancel", ID).expect(code)
    assert said in result.err
    assert result.out == ""


def test_faults_in_fields_are_all_said_and_none_acts_on_the_terminal(peer: Peer, stepd: Program) -> None:
    faults = [{"path": "/input/n", "message": "must be\x1b[2J small"}, {"path": "", "message": "[bold]no[/bold]"}]
    peer.always("executions", problem(422, "invalid_input", detail="The input\nis wrong", errors=faults))
    result = stepd("start", "jobs").expect(65)
    assert result.err == ("stepd: The input\\nis wrong.\n  /input/n: must be\\x1b[2J small\n  /: [bold]no[/bold]\n")


def test_with_json_a_refusal_is_the_problem_itself(peer: Peer, stepd: Program) -> None:
    peer.always("executions", problem(409, "occupied", execution={"id": ID, "status": "running"}))
    result = stepd("start", "jobs", "--json").expect(65)
    assert json.loads(result.err)["execution"] == {"id": ID, "status": "running"}
    assert result.out == ""


def test_a_fault_of_the_program_is_not_taken_for_a_failed_execution(peer: Peer, stepd: Program) -> None:
    peer.always("executions", Reply(202, {"no": "id"}))
    assert "KeyError" in stepd("start", "jobs").expect(70).err


def test_the_key_is_sent_and_never_printed(peer: Peer, stepd: Program) -> None:
    peer.always("executions", problem(401, "unauthenticated"))
    for result in (stepd("ls", "--key", "s3cret"), Program(peer.url, "s3cret")("ls", "--json")):
        assert "s3cret" not in result.expect(77).err
    assert {call.headers["authorization"] for call in peer.calls} == {"Bearer s3cret"}
