"""Writes `deploy/grafana/stepd.json`: a dashboard that shows what the figures of a daemon say, most urgent first."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

WIDTH: Final = 24
HEIGHT: Final = 7
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """One picture: a title, what it is for, its unit, and each line's query and legend."""

    title: str
    about: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = 8


def per_second(name: str, by: str = "", where: str = "") -> str:
    """The rate of a counter, summed over the daemons."""
    return f"sum{f' by ({by})' if by else ''} (rate({name}{where}[$__rate_interval]))"


def quantile(share: float, name: str, by: str = "") -> str:
    """So large a share of a histogram's values were below."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) (rate({name}_bucket[$__rate_interval])))"


def quantiles(name: str) -> tuple[tuple[str, str], ...]:
    """The middle and the end of a histogram."""
    return tuple((quantile(share, name), f"p{share * 100:g}") for share in (0.5, 0.99))


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Does anybody have to do something?": (
        Panel(
            "Waiting for a person",
            "Executions in reconciliation_required: `stepd ls --status reconciliation_required`.",
            "short",
            (('max(stepd_executions{status="reconciliation_required"})', "executions"),),
            "stat",
            6,
        ),
        Panel(
            "Without a worker",
            "Claimable steps that no live worker serves: `stepd ls --blocked`.",
            "short",
            (("sum(max by (workflow) (stepd_steps_blocked))", "steps"),),
            "stat",
            6,
        ),
        Panel(
            "Oldest claimable step",
            "How long it has stood.",
            "s",
            (("max(stepd_steps_queued_oldest_seconds)", "age"),),
            "stat",
            6,
        ),
        Panel(
            "Daemons in step with the store",
            "Daemons that answer and reach their store.",
            "short",
            (("sum(stepd_store_in_step)", "daemons"),),
            "stat",
            6,
        ),
    ),
    "Work": (
        Panel(
            "Executions",
            "Started, and ended by how, each second.",
            "ops",
            (
                (per_second("stepd_executions_created_total"), "started"),
                (per_second("stepd_executions_ended_total", "status"), "{{status}}"),
            ),
        ),
        Panel(
            "Steps that end",
            "By how, each second; items and rounds too.",
            "ops",
            ((per_second("stepd_steps_ended_total", "status"), "{{status}}"),),
        ),
        Panel(
            "Open executions",
            "By status.",
            "short",
            (('max by (status) (stepd_executions{status!~"completed|failed|cancelled"})', "{{status}}"),),
        ),
        Panel(
            "Queue",
            "Claimable steps by workflow.",
            "short",
            (("max by (workflow) (stepd_steps_queued)", "{{workflow}}"),),
        ),
        Panel(
            "Age of the oldest claimable step",
            "By workflow. When it grows, workers are missing or too few.",
            "s",
            (("max by (workflow) (stepd_steps_queued_oldest_seconds)", "{{workflow}}"),),
        ),
        Panel("Claim latency", "From claimable to leased.", "s", quantiles("stepd_claim_latency_seconds")),
    ),
    "What goes wrong": (
        Panel(
            "Attempts",
            "Failed, tried again, lapsed, lost, each second.",
            "ops",
            (
                (per_second("stepd_attempts_failed_total"), "failed"),
                (per_second("stepd_retries_total"), "tried again"),
                (per_second("stepd_attempts_orphaned_total"), "lapsed"),
                (per_second("stepd_attempts_lost_total"), "lost"),
                (per_second("stepd_leases_undelivered_total"), "undelivered"),
            ),
        ),
        Panel(
            "Outcomes late or refused",
            "By reason, each second.",
            "ops",
            (
                (per_second("stepd_settlements_late_total"), "late, accepted"),
                (per_second("stepd_settlements_refused_total", "reason"), "{{reason}}"),
                (per_second("stepd_heartbeats_refused_total", "reason"), "heartbeat: {{reason}}"),
            ),
        ),
        Panel(
            "Answers that are errors",
            "By status, each second.",
            "ops",
            ((per_second("stepd_http_requests_total", "status", '{status=~"[45].."}'), "{{status}}"),),
        ),
    ),
    "Workers": (
        Panel(
            "Workers and leases",
            "Live workers, leases in flight, orphans.",
            "short",
            (
                ("max(stepd_workers_live)", "workers"),
                ("max(stepd_leases_held)", "leases"),
                ("max(stepd_orphans)", "orphans"),
            ),
        ),
        Panel(
            "Who waits",
            "Claims, streams and views.",
            "short",
            (
                ("sum(stepd_claims_parked)", "claims"),
                ("sum(stepd_streams_open)", "streams"),
                ("sum(stepd_views_waiting)", "views"),
            ),
        ),
        Panel(
            "Signals",
            "By how they came, each second.",
            "ops",
            ((per_second("stepd_signals_received_total", "by"), "{{by}}"),),
        ),
    ),
    "The daemon": (
        Panel(
            "Requests",
            "By operation, each second.",
            "ops",
            ((per_second("stepd_http_requests_total", "operation"), "{{operation}}"),),
        ),
        Panel("Commits", "How long the commit itself takes.", "s", quantiles("stepd_commit_seconds")),
        Panel("Units to a commit", "How many share one.", "short", quantiles("stepd_batch_units")),
        Panel(
            "Event loop", "How much later than due it runs something.", "s", quantiles("stepd_event_loop_lag_seconds")
        ),
        Panel(
            "Loops that fail",
            "Rounds each second, by loop.",
            "ops",
            ((per_second("stepd_background_failures_total", "loop"), "{{loop}}"),),
        ),
        Panel(
            "Traces",
            "Spans on their way to the collector, each second.",
            "ops",
            (
                (per_second("stepd_trace_spans_exported_total"), "taken"),
                (per_second("stepd_trace_spans_failed_total"), "not taken"),
                (per_second("stepd_trace_spans_dropped_total"), "given up"),
            ),
        ),
        Panel("Memory", "Of each process.", "bytes", (('process_resident_memory_bytes{job="stepd"}', "{{instance}}"),)),
    ),
}


def text() -> str:
    """The whole file."""
    return json.dumps(_dashboard(), indent=2, ensure_ascii=False) + "\n"


def _dashboard() -> dict[str, Any]:
    return {
        "title": "stepd",
        "uid": "stepd",
        "tags": ["stepd"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}],
        },
        "panels": _panels(),
    }


def _panels() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    y = 0
    for title, panels in ROWS.items():
        made.append(
            {"id": len(made) + 1, "type": "row", "title": title, "gridPos": _place(0, y, WIDTH, 1), "panels": []}
        )
        y, x = y + 1, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + HEIGHT
            made.append(_panel(len(made) + 1, panel, _place(x, y, panel.width, HEIGHT)))
            x += panel.width
        y += HEIGHT
    return made


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for index, (expression, legend) in enumerate(panel.lines)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}
