"""Owns what `stepd top` knows: one look at a daemon's figures and workers, and the rates between two looks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from stepd_protocol.names import EXECUTION_STATUSES
from stepd_worker import ApiError, Client

Json: TypeAlias = dict[str, Any]
Labels: TypeAlias = tuple[tuple[str, str], ...]
Samples: TypeAlias = Mapping[str, Mapping[Labels, float]]

RATES: Final = {
    "executions_started": ("stepd_executions_created_total", None),
    "executions_completed": ("stepd_executions_ended_total", ("status", "completed")),
    "executions_failed": ("stepd_executions_ended_total", ("status", "failed")),
    "steps_ended": ("stepd_steps_ended_total", None),
    "leases_granted": ("stepd_leases_granted_total", None),
    "retries": ("stepd_retries_total", None),
    "requests": ("stepd_http_requests_total", None),
}
"""Counters, each with the one label that is wanted of it."""
HELD: Final = {
    "held": "stepd_leases_held",
    "orphans": "stepd_orphans",
    "claims_waiting": "stepd_claims_parked",
    "streams": "stepd_streams_open",
}


class Look(NamedTuple):
    """One look. ``samples`` is None where the figures are kept from whoever asks."""

    service: Json
    workers: list[Json]
    samples: Samples | None
    taken_at: float
    """Seconds of a clock that only grows."""


async def look(client: Client) -> Look:
    """Looks at the daemon now. Raises StepdError."""
    service = await client.service.aio()
    workers = (await client.workers.aio())["items"]
    try:
        samples: Samples | None = read_samples(await client.metrics.aio())
    except ApiError:
        samples = None
    return Look(service, workers, samples, time.monotonic())


def read_samples(text: str) -> Samples:
    """The samples of a scrape by name and labels; nothing of what is no scrape."""
    found: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    except ValueError:
        return {}
    return found


def summary(now: Look, before: Look | None) -> Json:
    """What is shown, as JSON: figures are null where they are kept from whoever asks, rates also at the first look."""
    samples = now.samples
    return {
        "service": {name: now.service[name] for name in ("id", "name", "version")},
        "store_in_step": None if samples is None else _sum(samples, "stepd_store_in_step") == 1,
        "executions": None if samples is None else _by_status(samples),
        "queue": None if samples is None else _queue(samples),
        "leases": None if samples is None else {name: int(_sum(samples, of)) for name, of in HELD.items()},
        "rates": _rates(now, before),
        "workers": sorted(now.workers, key=lambda one: (not one["live"], -one["leases"], one["name"], one["instance"])),
    }


def _by_status(samples: Samples) -> dict[str, int]:
    return {status: int(_sum(samples, "stepd_executions", ("status", status))) for status in EXECUTION_STATUSES}


def _queue(samples: Samples) -> list[Json]:
    """Workflows with claimable steps, the one that has waited longest first."""
    lines = [
        {
            "workflow": dict(labels).get("workflow", ""),
            "queued": int(count),
            "oldest_seconds": samples.get("stepd_steps_queued_oldest_seconds", {}).get(labels, 0.0),
            "blocked": int(samples.get("stepd_steps_blocked", {}).get(labels, 0)),
        }
        for labels, count in samples.get("stepd_steps_queued", {}).items()
        if count
    ]
    return sorted(lines, key=lambda line: (-line["oldest_seconds"], line["workflow"]))


def _rates(now: Look, before: Look | None) -> dict[str, float] | None:
    """How much each counter grew in a second; None where there is nothing to compare, or it is another daemon's."""
    if before is None or now.samples is None or before.samples is None or now.taken_at <= before.taken_at:
        return None
    grown = {name: _sum(now.samples, *of) - _sum(before.samples, *of) for name, of in RATES.items()}
    if min(grown.values()) < 0:
        return None
    return {name: round(more / (now.taken_at - before.taken_at), 2) for name, more in grown.items()}


def _sum(samples: Samples, name: str, label: tuple[str, str] | None = None) -> float:
    found: Sequence[float] = [
        value for labels, value in samples.get(name, {}).items() if label is None or label in labels
    ]
    return sum(found)
