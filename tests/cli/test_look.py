"""`stepd ls`, `show`, `events`, `workflows` and the commands that steer: what they ask for, and what they print."""

import json
from typing import Any

import pytest

from tests.cli.answers import ID, USAGE, ended, event, page, step, summary, view
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply

EVIL = "\x1b[2J[bold]x[/bold]\u202e\r:smile:"
HARMLESS = r"\x1b[2J[bold]x[/bold]\u202e\r:smile:"


def test_ls_asks_for_what_it_is_told(peer: Peer, stepd: Program) -> None:
    peer.always("executions", page())
    filters = "--workflow jobs --version 2 --status running --status failed --correlation c --tenant t --label a=b=c"
    rest = (
        "--blocked --created-after 2026-11-30T00:00:00Z --created-before 2026-12-01T00:00:00+01:00 --oldest --limit 7"
    )
    result = stepd("ls", *filters.split(), *rest.split()).expect(0)
    assert (result.out, result.err) == ("", "No executions.\n")
    assert peer.calls[0].path == (
        "/v1/executions?workflow=jobs&version=2&status=running&status=failed&correlation=c&tenant=t&label=a%3Ab%3Dc"
        "&blocked=true&created_after=2026-11-30T00%3A00%3A00Z&created_before=2026-12-01T00%3A00%3A00%2B01%3A00"
        "&order=oldest&limit=7"
    )


def test_ls_prints_a_line_an_execution_and_how_to_go_on(peer: Peer, stepd: Program) -> None:
    error = {"class": "fatal", "message": "it broke", "step": "work", "cause": None}
    over = summary(id="e-2", status="failed", ended_at="2026-11-30T12:00:02.500Z", error=error)
    peer.always("executions", page(summary(), over, after="cu/rsor"))
    result = stepd("ls").expect(0)
    head, first, second = result.lines
    assert head.split() == ["id", "workflow", "version", "status", "created", "elapsed"]
    assert first.startswith(f"{ID}  jobs      1        running  2026-11-30 12:00:00Z  ")
    assert second.split() == "e-2 jobs 1 failed 2026-11-30 12:00:00Z 2.50 s fatal: it broke".split()
    assert result.err == "There are more: stepd ls --cursor cu/rsor\n"


def test_ls_goes_on_with_a_cursor_and_nothing_else(peer: Peer, stepd: Program) -> None:
    peer.always("executions", page(summary()))
    assert json.loads(stepd("ls", "--cursor", "a/b", "--json").expect(0).out) == {"items": [summary()], "next": None}
    assert peer.calls[0].path == "/v1/executions?cursor=a%2Fb"


def test_show_prints_what_there_is_to_say(peer: Peer, stepd: Program) -> None:
    blocked = {"code": "no_worker", "since": "2026-11-30T12:00:00.000Z", "detail": "nobody serves rest"}
    peer.always(
        ID,
        Reply(
            200,
            view(
                step("fetch", "succeeded", caught=True),
                step("rest", "queued", attempt=0, blocked=blocked),
                correlation="order 7",
                labels={"team": "blue"},
                input={"n": 1},
                usage=USAGE | {"input_tokens": 812, "cost": 0.5, "currency": "EUR"},
                direction="cancel",
            ),
        ),
    )
    peer.always("events", page(event(2, "attempt.leased", "fetch"), event(12, "step.succeeded", "fetch")))
    text = stepd("show", ID).expect(0).out
    for part in (
        "jobs 1  running  ",
        "✓  fetch  succeeded (caught)  1        1.00 s   on w-1\n",
        "·  rest   queued                                no_worker: nobody serves rest\n",
        "correlation  order 7\n",
        "labels       team=blue\n",
        "direction    cancel\n",
        "usage        tokens: 812 input, 0.5 EUR\n",
        'input        {"n": 1}\n',
    ):
        assert part in text
    assert peer.calls[0].path == f"/v1/executions/{ID}"


def test_what_used_up_its_budget_says_so_and_how_to_go_on(peer: Peer, stepd: Program) -> None:
    paused = {
        "status": "paused",
        "paused": {"reason": "budget_exceeded", "since": "2026-11-30T12:00:01.000Z"},
        "budget": {"cost": 0.000002, "tokens": 1000},
        "usage": {**USAGE, "input_tokens": 1000, "cost": 0.000001, "currency": "USD"},
    }
    peer.always("executions", page(summary(**paused)))
    peer.always(ID, Reply(200, view(step(), **paused)))
    peer.always("events", page())
    assert stepd("ls").expect(0).lines[1].endswith("its budget is used up")
    shown = stepd("show", ID).expect(0).out
    assert "since 2026-11-30 12:00:01Z: its budget is used up; stepd resume with a greater --budget-cost" in shown
    assert "0.000002 USD and 1,000 tokens" in shown


def test_show_counts_the_items_of_a_step(peer: Peer, stepd: Program) -> None:
    items = {"pending": 4, "running": 2, "succeeded": 5, "retry_wait": 1}
    peer.always(ID, Reply(200, view(step("each", "running", items=items))))
    peer.always("events", page())
    assert "5 of 12 items, 2 running, 1 retry_wait, 4 pending" in stepd("show", ID).expect(0).out


def test_show_names_the_signals_that_nobody_took(peer: Peer, stepd: Program) -> None:
    left = [{"name": "go", "at": "2026-11-30T12:00:00.000Z", "payload": 1}, {"name": "paid", "at": "…"}]
    peer.always(ID, Reply(200, view(step(), status="cancelled", signals_not_taken=left)))
    peer.always("events", page())
    assert "signals not taken  go, paid\n" in stepd("show", ID).expect(0).out


def test_show_asks_for_attempts_and_payloads_and_prints_them(peer: Peer, stepd: Program) -> None:
    attempt = {
        "attempt": 1,
        "status": "failed",
        "worker": "w-1",
        "instance": "i-1",
        "leased_at": "2026-11-30T12:00:00.000Z",
        "started_at": None,
        "ended_at": "2026-11-30T12:00:01.500Z",
        "late": True,
        "effect": "unknown",
        "error": {"class": "retryable", "message": "no luck", "details": None},
        "progress": None,
        "usage": [],
        "stale_outcome": None,
    }
    peer.always(ID, Reply(200, view(step(attempts=[attempt], input={"n": 1}, output=[1.0]))))
    peer.always("events", page())
    text = stepd("show", ID, "--attempts", "--payloads").expect(0).out
    assert peer.calls[0].path == f"/v1/executions/{ID}?include=attempts%2Cpayloads"
    assert (
        "  work  attempt 1  failed  on w-1  2026-11-30 12:00:00Z  1.50 s  late  effect unknown  retryable: no luck"
        in text
    )
    assert '  work  input  {"n": 1}\n' in text
    assert "  work  output  [1.0]\n" in text


def test_show_with_json_is_equal_to_the_daemons_answer(peer: Peer, stepd: Program) -> None:
    exact = view(step(), input={"big": 10**40, "float": 1.0, "zero": "\x00", "text": EVIL, "ordered": {"b": 1, "a": 2}})
    peer.always(ID, Reply(200, exact))
    text = stepd("show", ID, "--json").expect(0).out
    assert json.loads(text) == exact
    assert '"float": 1.0' in text
    assert str(10**40) in text
    assert text.index('"b"') < text.index('"a"')
    assert text.isascii()
    assert "\x1b" not in text
    assert len(peer.calls) == 1


def test_events_prints_the_journal_page_by_page(peer: Peer, stepd: Program) -> None:
    peer.script(
        "events",
        page(event(1, "execution.created", data={"workflow": "jobs"}), after=1),
        page(event(2, "attempt.leased", "work", index=4)),
    )
    assert stepd("events", ID).expect(0).lines == [
        '    1  2026-11-30T12:00:00.100Z  execution.created  {"workflow": "jobs"}',
        "    2  2026-11-30T12:00:00.200Z  attempt.leased  work[4]  attempt 1  on w-1",
    ]
    assert [call.path.partition("?")[2] for call in peer.calls] == ["after=0", "after=1"]


def test_events_with_json_is_one_event_a_line(peer: Peer, stepd: Program) -> None:
    told = event(7, "execution.created", data={"why": EVIL})
    peer.always("events", page(told))
    result = stepd("events", ID, "--json", "--after", "6").expect(0)
    assert [json.loads(line) for line in result.lines] == [told]
    assert peer.calls[0].path.endswith("?after=6")


def test_a_reader_that_goes_away_ends_it_quietly(peer: Peer, stepd: Program) -> None:
    events = [event(seq, "execution.created", data={"long": "x" * 1000}) for seq in range(1, 1000)]
    peer.always("events", page(*events))
    process = stepd.launch("events", ID)
    assert process.stdout is not None
    assert process.stdout.readline().split()[2] == "execution.created"
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(30), said) == (74, "")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["cancel", ID], {}),
        (["cancel", ID, "--reason", "too late", "--force"], {"reason": "too late", "force": True}),
        (["pause", ID], {}),
        (["resume", ID], {}),
        (["resume", ID, "--budget-tokens", "9"], {"budget": {"tokens": 9}}),
        (["resume", ID, "--budget-cost", "0.5"], {"budget": {"cost": 0.5}}),
    ],
)
def test_steering_asks_once_and_prints_the_status(
    peer: Peer, stepd: Program, arguments: list[str], sent: dict[str, Any]
) -> None:
    peer.always(arguments[0], Reply(202, view(status="cancelling")))
    assert stepd(*arguments).expect(0).out == "cancelling\n"
    (call,) = peer.calls
    assert (call.method, call.path, call.body) == ("POST", f"/v1/executions/{ID}/{arguments[0]}", sent)


def test_a_signal_is_sent_with_its_payload_and_a_key(peer: Peer, stepd: Program) -> None:
    peer.always("signals", Reply(202, view(status="running")))
    assert stepd("signal", ID, "approval", "--payload", '{"n": 1.0}').expect(0).out == "running\n"
    assert stepd("signal", ID, "approval", "--idempotency-key", "mine", "--json").expect(0).out.startswith("{")
    first, second = peer.calls
    assert (first.path, first.raw) == (f"/v1/executions/{ID}/signals", b'{"name":"approval","payload":{"n": 1.0}}')
    assert len(first.headers["idempotency-key"]) == 36
    assert (second.body, second.headers["idempotency-key"]) == ({"name": "approval", "payload": None}, "mine")


def test_an_event_says_how_many_it_reached(peer: Peer, stepd: Program) -> None:
    peer.script("events", Reply(202, {"delivered": 1}), Reply(202, {"delivered": 2}), Reply(202, {"delivered": 0}))
    assert stepd("publish", "paid", "order 17", "--payload", "5").expect(0).out == "delivered to 1 execution\n"
    assert stepd("publish", "paid", "--correlation", "order 17").expect(0).out == "delivered to 2 executions\n"
    assert json.loads(stepd("publish", "paid", "order 17", "--json").expect(0).out) == {"delivered": 0}
    assert peer.calls[0].body == {"name": "paid", "correlation": "order 17", "payload": 5}


@pytest.mark.parametrize("command", [["signal", ID, "go"], ["publish", "go", "c"]])
def test_a_payload_that_is_no_json_is_refused_before_anything_is_sent(
    peer: Peer, stepd: Program, command: list[str]
) -> None:
    assert "is no JSON" in stepd(*command, "--payload", "{").expect(64).err
    assert peer.calls == []


def test_workflows_lists_versions_and_chooses_one(peer: Peer, stepd: Program) -> None:
    version = {"digest": "d", "registered_at": "2026-11-30T12:00:00.000Z", "open_executions": 3, "served": True}
    jobs = {"name": "jobs", "current": "2", "versions": [version | {"version": "1"}, version | {"version": "2"}]}
    peer.always("workflows", page(jobs))
    peer.always("current", Reply(200, jobs))
    assert [line.split() for line in stepd("workflows").expect(0).lines] == [
        ["workflow", "version", "open", "served", "registered"],
        ["jobs", "1", "3", "yes", "2026-11-30", "12:00:00Z"],
        ["jobs", "2", "current", "3", "yes", "2026-11-30", "12:00:00Z"],
    ]
    assert json.loads(stepd("workflows", "--json").expect(0).out)["items"] == [jobs]
    assert stepd("workflows", "use", "jobs", "1").expect(0).out == "New executions of jobs get version 1.\n"
    assert peer.named("current")[0].body == {"version": "1"}


def test_nothing_in_data_acts_on_the_terminal(peer: Peer, stepd: Program) -> None:
    error = {"class": EVIL, "message": EVIL, "step": EVIL, "cause": {"class": EVIL, "message": EVIL, "details": None}}
    texts: dict[str, Any] = dict.fromkeys(["id", "workflow", "version", "correlation", "tenant", "created_at"], EVIL)
    texts |= {"labels": {EVIL: EVIL}, "error": error, "blocked": {"code": EVIL, "detail": EVIL}}
    inner = step(EVIL, EVIL, error=error, blocked={"code": EVIL, "detail": EVIL}, input={EVIL: EVIL}, output=EVIL)
    version = {"version": EVIL, "open_executions": 0, "served": False, "registered_at": EVIL}
    peer.always("executions", page(summary(**texts), after=EVIL))
    peer.always(ID, Reply(200, ended(EVIL, inner, **texts, input={EVIL: EVIL}, output=[EVIL], state={EVIL: EVIL})))
    peer.always("events", page(event(1, EVIL, EVIL, worker=EVIL, data={EVIL: EVIL}, at=EVIL)))
    peer.always("workflows", page({"name": EVIL, "current": EVIL, "versions": [version]}))
    peer.always("pause", Reply(202, {"id": EVIL, "status": EVIL}))
    for arguments in (["ls"], ["show", ID, "--payloads"], ["events", ID], ["workflows"], ["pause", ID]):
        result = stepd(*arguments).expect(0)
        for text in (result.out, result.err):
            assert all(line.isprintable() for line in text.split("\n")), arguments
        assert HARMLESS in result.out, arguments
