"""The log: what an operator has to know stands in it, once and with its ids, and nothing that users pass through."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepd.engine.commands import Refused
from stepd.store.base import StoreUnavailable
from stepd.telemetry.lines import AT_ONCE, WINDOW_SECONDS, Lines
from stepd.telemetry.logs import JsonLines, TextLines
from tests.support import postgres
from tests.support.client import Http, Json
from tests.support.daemon import Daemon, running
from tests.support.definitions import wait, write
from tests.support.flow import make_flow
from tests.support.keys import make_key
from tests.support.wait import eventually

MARK = "PASSED-THROUGH"
TRACE = "0af7651916cd43dd8448eb211c80319c"
FLAGS = ("--log-format", "json", "--log-level", "debug")


@pytest.fixture(params=["sqlite", "postgres"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    """One whose every secret is known to the test."""
    env = {"STEPD_ADMIN_KEYS": f"ops={MARK}-{secrets.token_hex(16)}"}
    if request.param == "sqlite":
        with running(tmp_path / "stepd.db", *FLAGS, env=env) as daemon:
            yield daemon
        return
    env["STEPD_ALLOW_OWNER_ROLE"] = str(postgres.own_server() is not None)
    with (
        postgres.database() as database,
        running(tmp_path / "stepd.db", *FLAGS, env=env, database=database.daemon_url) as daemon,
    ):
        yield daemon


def lines(daemon: Daemon) -> list[Json]:
    return [json.loads(line) for line in daemon.output().splitlines()]


def told(daemon: Daemon, text: str) -> list[Json]:
    return [line for line in lines(daemon) if text in line["message"]]


def test_a_whole_run_leaves_its_ids_and_nothing_of_its_content(daemon: Daemon) -> None:
    key = daemon.env["STEPD_ADMIN_KEYS"].partition("=")[2]
    http = Http(daemon.url, key)
    worker = make_key(http, "worker", name="hand")
    flow = make_flow(
        http,
        write("charge", delivery="at_most_once", lease_seconds=0.3, reclaim_seconds=0.1),
        wait("approved", payload_schema={"const": {MARK: True}}),
        description=MARK,
        output={MARK: {"$cel": "steps.charge.output"}},
    )
    run = flow.start(
        headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "Idempotency-Key": MARK},
        **{name: {MARK: MARK} for name in ("input", "state", "labels")},
        correlation=MARK,
        tenant=MARK,
    )
    claimed = {"worker": "w-1", "claim_id": MARK, "serves": [{"workflow": flow.name}]}
    (lease,) = worker.http.post("/v1/leases/claim", claimed).expect(200)["leases"]
    path, fence = f"/v1/leases/{lease['id']}", {"fence": lease["fence"]}
    beat = {**fence, "started": True, "progress": {MARK: MARK}, "spans": [{"name": MARK}], "usage": [{"model": MARK}]}
    worker.http.post(f"{path}/heartbeat", beat).expect(200)
    run.until("reconciliation_required")
    worker.http.post(f"{path}/complete", {**fence, "output": MARK, "state": {MARK: MARK}}).expect_refusal("lease_lost")
    failed = {**fence, "class": MARK, "message": MARK, "details": {MARK: MARK}}
    worker.http.post(f"{path}/fail", failed).expect_refusal("lease_lost")
    evidence = {"reference": MARK, "reason": MARK}
    results = [{"step": "charge", "index": None, "outcome": "succeeded", "output": {MARK: MARK}}]
    run.resolve("resume", key=MARK, results=results, evidence=evidence).expect(200)
    run.signal("go", {MARK: False}, key=MARK).expect_problem(422, "invalid_input", "invalid_request")
    http.post("/v1/events", {"name": "go", "correlation": MARK, "payload": {MARK: True}}).expect(202)
    run.until("completed")
    run.cancel(reason=MARK).expect_problem(409, "already_ended")
    http.post("/v1/executions", {MARK: MARK}).expect(422)
    http.get(f"/v1/executions?{MARK}={MARK}").expect(422)
    Http(daemon.url, MARK).get("/v1/executions").expect(401)
    daemon.stop()
    assert MARK not in daemon.output()
    for secret in (key, worker.secret, lease["id"]):
        assert secret not in daemon.output()
    where = {"execution": run.id, "step": "charge", "attempt": 1, "worker": "w-1", "trace_id": TRACE}
    for text in (
        "a lease lapsed",
        "an attempt was taken back",
        "nobody knows whether a write happened",
        "a complete was refused: lease_lost",
        "a fail was refused: lease_lost",
        "an outcome came too late",
    ):
        (line,) = told(daemon, text)
        assert where.items() <= line.items(), text
    (line,) = told(daemon, "an execution waits for a person")
    assert (line["execution"], line["workflow"], line["trace_id"]) == (run.id, flow.name, TRACE)
    assert "step" not in line


def test_an_outage_is_told_once_and_its_end_with_the_grace(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db", "--log-format", "json") as daemon:
        away = tmp_path / "away.db"
        daemon.file.rename(away)
        eventually(lambda: told(daemon, "the store is away"), what="it is told")
        away.rename(daemon.file)
        eventually(lambda: told(daemon, "the store is back"), what="so is its end")
        assert [line["level"] for line in told(daemon, "the store is ")] == ["warning", "info"]


def test_lines_alike_are_bounded_and_their_number_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    written = Lines(lambda: now[0])
    for number in range(AT_ONCE + 30):
        written.refused("complete", Refused("lease_lost", f"e{number}", "running"))
    written.refused("fail", Refused("lease_lost", "another", "running"))
    written.refused("heartbeat", Refused("lease_lost", "another", "running"))
    assert len(caplog.records) == AT_ONCE + 1
    written.round_over()
    now[0] += WINDOW_SECONDS
    written.round_over()
    written.round_over()
    (left_out,) = caplog.messages[AT_ONCE + 1 :]
    assert left_out == "30 more of these were left out: a complete was refused: lease_lost"
    written.refused("complete", Refused("lease_lost", "later", "running"))
    assert caplog.messages[-1] == "a complete was refused: lease_lost"


def record(error: BaseException | None = None, message: str = "it failed", **about: Any) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("stepd.x", logging.ERROR, __file__, 1, message, (), info)
    made.about = about
    return made


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001 — the test wants it with its traceback
        return caught


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_an_error_tells_where_it_was_raised_and_only_what_is_ours_to_tell(form: logging.Formatter) -> None:
    error = raised(KeyError(MARK), raised(ValueError(MARK)))
    text = form.format(record(error, execution="e1", step=None))
    assert MARK not in text
    assert text.index("ValueError") < text.index("KeyError")
    assert os.path.basename(__file__) in text
    assert "e1" in text
    assert "step=" not in text
    assert '"step"' not in text
    assert "the disk is full" in form.format(record(raised(StoreUnavailable("the disk is full"))))
    assert "No space" in form.format(record(raised(OSError(28, "No space"))))


def test_a_line_of_text_is_one_line_whatever_stands_in_it() -> None:
    line = TextLines().format(record(message="one\n2026-11-30 forged\x1b[31m", worker="w\r\n"))
    assert "\n" not in line
    assert "\r" not in line
    assert "\x1b" not in line
