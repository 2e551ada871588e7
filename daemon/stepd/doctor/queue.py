"""Examines what waits in the store: for a worker, for the loops, for a person."""

from collections.abc import Iterable
from typing import Final

from stepd.doctor.findings import Finding, counted, ok, warning
from stepd.service.lives import Life, LifeKey, Work, serves_of, tenants_of
from stepd.store.base import QueueLine
from stepd.store.contents import Contents
from stepd.store.records import WorkerRow
from stepd_protocol.limits import WORKER_LIVE_SECONDS

NAMED_MAX: Final = 3
FLUSH_SECONDS: Final = 10
"""Workers' lives reach the store a few seconds late."""


def examine_queue(contents: Contents, now: int, *, is_held: bool) -> list[Finding]:
    """What stands. Without a daemon nothing can move, so that only what waits for a person is of interest."""
    return [
        _blocked(contents, now, is_held=is_held),
        _overdue(contents, is_held=is_held),
        _orphans(contents),
        _reconciliation(contents),
    ]


def _blocked(contents: Contents, now: int, *, is_held: bool) -> Finding:
    steps = sum(line.count for line in contents.queue)
    queued = counted(steps, "step waits in the queue", "steps wait in the queue")
    lives = [_life(row) for row in contents.workers if now - row.last_seen_at < _live_ms()]
    unserved = [line for line in contents.queue if not _is_served(line, lives)]
    if not is_held or not unserved:
        return ok("queue", queued if steps else "no step waits in the queue")
    count = counted(sum(line.count for line in unserved), "step stands", "steps stand")
    return warning(
        "queue",
        f"{count} for want of a worker: {_named(unserved)}",
        "Start a worker that serves them; stepd ls --blocked lists their executions.",
    )


def _overdue(contents: Contents, *, is_held: bool) -> Finding:
    if not is_held or not contents.overdue:
        return ok("loops", "nothing is overdue" if is_held else "no daemon runs, so nothing is acted upon")
    count = counted(contents.overdue, "time-out, retry or lapsed lease is", "time-outs, retries or lapsed leases are")
    return warning(
        "loops",
        f"{count} overdue by more than 5 s",
        "A daemon with --no-loops acts on none of them: run one with its loops. Else it is overloaded.",
    )


def _orphans(contents: Contents) -> Finding:
    if not contents.orphans:
        return ok("orphans", "no lapsed lease waits for its outcome")
    count = counted(contents.orphans, "lapsed lease waits", "lapsed leases wait")
    return warning(
        "orphans",
        f"{count} for an outcome, and will be taken back",
        "Look at the workers: they were killed, lost their network, or sent no heartbeats in time.",
    )


def _reconciliation(contents: Contents) -> Finding:
    if not contents.reconciliation:
        return ok("reconciliation", "no execution waits for a person")
    count = counted(contents.reconciliation, "execution waits", "executions wait")
    return warning(
        "reconciliation",
        f"{count} for a person to say what happened",
        "stepd ls --status reconciliation_required lists them.",
    )


def _live_ms() -> int:
    return (WORKER_LIVE_SECONDS + FLUSH_SECONDS) * 1000


def _life(row: WorkerRow) -> Life:
    return Life(LifeKey(row.principal, row.worker, row.instance), serves_of(row.serves), tenants_of(row.tenants), 0.0)


def _is_served(line: QueueLine, lives: Iterable[Life]) -> bool:
    work = Work(line.workflow, line.version, line.step, line.tenant)
    return any(life.serves_work(work, 0.0) for life in lives)


def _named(lines: list[QueueLine]) -> str:
    names = list(dict.fromkeys(f"{line.workflow} {line.version}, step {line.step}" for line in lines))
    more = len(names) - NAMED_MAX
    return "; ".join(names[:NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
