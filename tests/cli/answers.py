"""Owns what a scripted daemon answers to the program: views, events and streams as the protocol has them."""

import json
from typing import Any

from tests.sdk.peer import Call, Peer, Reply, Script

ID = "0193-e"

USAGE = {
    "input_tokens": 0,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "output_tokens": 0,
    "reasoning_tokens": 0,
    "cost": None,
    "currency": None,
    "unpriced_tokens": 0,
}


def summary(**changes: Any) -> dict[str, Any]:
    """An execution as lists show it: running unless changed."""
    item = {
        "id": ID,
        "workflow": "jobs",
        "version": "1",
        "status": "running",
        "direction": "forward",
        "revision": 1,
        "error": None,
        "correlation": None,
        "tenant": None,
        "labels": {},
        "usage": USAGE,
        "budget": None,
        "paused": None,
        "standing_writes": [],
        "signals_not_taken": [],
        "blocked": None,
        "created_at": "2026-11-30T12:00:00.000Z",
        "started_at": "2026-11-30T12:00:00.010Z",
        "ended_at": None,
    }
    assert changes.keys() <= item.keys(), changes
    return item | changes


def view(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An execution's view."""
    payloads = {name: changes.pop(name, None) for name in ("input", "output", "outcome", "state")}
    return summary(**changes) | payloads | {"steps": list(steps)}


def ended(status: str, *steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The view of an execution that is over, two and a half seconds after it began."""
    return view(*steps, status=status, ended_at="2026-11-30T12:00:02.500Z", **changes)


def step(id: str = "work", status: str = "running", **changes: Any) -> dict[str, Any]:
    """A step in a view."""
    shown = {
        "id": id,
        "index": None,
        "status": status,
        "attempt": 1,
        "effect": "read_only",
        "next_attempt_at": None,
        "error": None,
        "blocked": None,
        "held": False,
        "caught": False,
    }
    return shown | changes


def event(seq: int, type: str, step: str | None = None, **changes: Any) -> dict[str, Any]:
    """An event, `seq` tenths of a second after the execution began."""
    told = {
        "seq": seq,
        "at": f"2026-11-30T12:00:{seq // 10:02d}.{seq % 10}00Z",
        "type": type,
        "step": step,
        "index": None,
        "attempt": None if step is None else 1,
        "worker": None if step is None else "w-1",
        "data": {},
    }
    return told | changes


def stream(*events: dict[str, Any]) -> Reply:
    """A stream of events that is cut, or over, after the last one."""
    text = "".join(f": a comment\n\nid: {told['seq']}\ndata: {json.dumps(told)}\n\n" for told in events)
    return Reply(200, text.encode(), {"Content-Type": "text/event-stream"})


def page(*items: Any, after: Any = None) -> Reply:
    """One page of a list, or of a journal."""
    return Reply(200, {"items": list(items), "next": after})


def in_turn(name: str, *replies: Reply) -> Script:
    """Answers to the calls of that name, one after the other; the last one again and again."""
    left = list(replies)

    def answer(call: Call) -> Reply | None:
        if call.name != name:
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def show_run(peer: Peer, last: dict[str, Any], *events: dict[str, Any]) -> None:
    """Scripts an execution that runs through these events and then looks like `last`."""
    running = view(*(step(one["id"], "running") for one in last["steps"]))
    peer.scripts += [in_turn(ID, Reply(200, running), Reply(200, last)), in_turn("events", stream(*events))]
