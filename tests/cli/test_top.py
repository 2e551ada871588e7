"""`stepd top`: queues, workers, leases and rates; once, again and again, on a terminal, while the daemon is away."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.answers import page
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply
from tests.support.client import Http
from tests.support.daemon import running
from tests.support.definitions import read
from tests.support.flow import make_flow

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SERVICE = {"id": "s-1", "name": "orders", "version": "0.1.0", "protocol_version": 1, "parts": {}}
WORKER = {
    "name": "w-1",
    "instance": "8f2c63ce-d46e-4a39",
    "last_seen_at": "2026-11-30T12:00:00.000Z",
    "live": True,
    "serves": [{"workflow": f"flow-{number}", "version": "1"} for number in range(6)],
    "leases": 8,
}


def scrape(**values: float) -> Reply:
    return Reply(
        200, "".join(f"{name} {value}\n" for name, value in values.items()).encode(), {"Content-Type": "text/plain"}
    )


def script(peer: Peer, *, metrics: Reply, workers: int = 1, **changes: Any) -> None:
    peer.always("service", Reply(200, SERVICE))
    found = [WORKER | {"name": f"w-{number}", "leases": number} | changes for number in range(workers)]
    peer.always("workers", page(*found))
    peer.always("metrics", metrics)


def queues(count: int) -> Reply:
    lines = [f'stepd_steps_queued{{workflow="flow-{number}"}} {number + 1}\n' for number in range(count)]
    lines += [f'stepd_steps_queued_oldest_seconds{{workflow="flow-{number}"}} {number}\n' for number in range(count)]
    return Reply(200, "".join(["stepd_store_in_step 1\n", *lines]).encode(), {"Content-Type": "text/plain"})


def test_a_real_daemon_is_shown_once(real: Program, http: Http) -> None:
    flow = make_flow(http, read())
    for _ in range(3):
        flow.start()
    flow.claim_one()
    lines = real("top", "--once").expect(0).lines
    assert lines[0].startswith("stepd ")
    assert "in step with its store" in lines[0]
    words = [line.split() for line in lines]
    (queued,) = [row for row in words if row[:1] == [flow.name]]
    assert queued[1] == "2"
    assert queued[-1] == "-"
    assert ["tester", "tester", "1"] in [row[:3] for row in words]
    assert "1 held" in "\n".join(lines)
    assert "requests" in "\n".join(lines), "rates are there"


def test_json_has_all_of_it(real: Program, http: Http) -> None:
    flow = make_flow(http, read())
    flow.start()
    found = json.loads(real("top", "--once", "--json").expect(0).out)
    assert found.keys() == {"service", "store_in_step", "executions", "queue", "leases", "rates", "workers"}
    (line,) = [line for line in found["queue"] if line["workflow"] == flow.name]
    assert line["queued"] == line["blocked"] == 1
    assert 0 < line["oldest_seconds"] < 60
    assert found["rates"]["requests"] > 0
    assert found["executions"]["queued"] >= 1


def test_without_a_terminal_it_is_shown_once(peer: Peer, stepd: Program) -> None:
    script(peer, metrics=queues(1))
    assert len(stepd("top").expect(0).lines) > 3


def test_without_the_figures_the_workers_are_still_shown(peer: Peer, stepd: Program) -> None:
    script(peer, metrics=Reply(403, b"<html>no</html>"))
    result = stepd("top", "--once").expect(0)
    assert "/metrics is kept from here" in result.lines[0]
    assert "w-0" in result.out


@pytest.mark.parametrize(("columns", "rows"), [(20, 10), (80, 24), (200, 50)])
def test_on_a_terminal_it_is_drawn_anew_and_fits(peer: Peer, stepd: Program, columns: int, rows: int) -> None:
    script(peer, metrics=queues(40), workers=40)
    result = stepd.on_terminal("top", "--every", "0.2", columns=columns, rows=rows, until="more").expect(0)
    assert result.out.endswith("\x1b[?25h\x1b[?1049l"), "the cursor and what was there before are back"
    # The last one may be cut by the interrupt.
    picture = max((CONTROL.sub("", one) for one in result.out.split("\x1b[H")), key=len)
    lines = picture.split("\n")
    assert len(lines) <= rows
    assert max(len(line.rstrip("\r")) for line in lines) <= columns
    assert "flow-39" in picture, "the queue that has waited longest comes first"
    assert "more" in picture


def test_hostile_names_are_harmless(peer: Peer, stepd: Program) -> None:
    evil = "\x1b[31mx\x1b]0;t\x07\u202e"
    metrics = Reply(200, f'stepd_steps_queued{{workflow="{evil}"}} 1\n'.encode(), {"Content-Type": "text/plain"})
    script(peer, metrics=metrics, instance=evil, serves=[{"workflow": evil, "version": evil}])
    for result in (stepd("top", "--once"), stepd.on_terminal("top", "--once", columns=300)):
        plain = result.expect(0).plain
        assert r"\x1b[31mx" in plain
        assert not re.findall(r"[^\r\n -~…]", plain)
        assert "\x1b]0;" not in result.out


def test_what_is_no_scrape_is_shown_as_nothing(peer: Peer, stepd: Program) -> None:
    script(peer, metrics=Reply(200, b"<html>hello {{{ </html>\n", {"Content-Type": "text/html"}))
    assert "nothing is queued" in stepd("top", "--once").expect(0).out


def test_it_goes_on_while_the_daemon_is_away(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        process = Program(daemon.url).launch("top", "--json", "--every", "0.2")
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["rates"] is None
        assert json.loads(process.stdout.readline())["rates"] is not None
        daemon.kill()
        assert "no answer, trying again" in process.stderr.readline()
        daemon.start()
        while json.loads(process.stdout.readline())["rates"] is not None:
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_key_that_may_not_see_the_workers_ends_it(peer: Peer, stepd: Program) -> None:
    peer.always("service", Reply(200, SERVICE))
    refused = {
        "type": "urn:stepd:problem:forbidden",
        "status": 403,
        "code": "forbidden",
        "detail": "needs the scope read",
    }
    peer.always("workers", Reply(403, refused))
    assert "needs the scope read" in stepd("top", "--once").expect(77).err
