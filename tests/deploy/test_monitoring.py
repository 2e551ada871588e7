"""The alerts and the dashboard of `deploy/`: they name figures that there are, and each alert comes when it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from stepd.telemetry.metrics import Metrics
from tests.support import promtool
from tests.support.client import Http
from tests.support.daemon import running
from tests.support.definitions import read
from tests.support.flow import make_flow

ROOT: Final = Path(__file__).parents[2]
RULES: Final = ROOT / "deploy" / "prometheus" / "stepd.rules.yaml"
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "stepd.json"
FIGURE: Final = re.compile(r"\bstepd_\w+")
LABEL: Final = re.compile(r"\b(\w+)=~?\"")
OF_PROMETHEUS: Final = frozenset({"instance", "job", "le"})

needs_promtool = pytest.mark.skipif(promtool.program() is None, reason="needs promtool, of Debian's package prometheus")

COMES: Final[dict[str, dict[str, str]]] = {
    "StepdDown": {'up{job="stepd", instance="a"}': "0x40"},
    "StepdStoreAway": {'stepd_store_in_step{instance="a"}': "1x5 0x40"},
    "StepdQueueOld": {'stepd_steps_queued_oldest_seconds{workflow="w"}': "0+60x60"},
    "StepdNoWorker": {'stepd_steps_blocked{workflow="w"}': "2x40"},
    "StepdNeedsReconciliation": {'stepd_executions{status="reconciliation_required"}': "0x5 1x40"},
    "StepdUncertain": {'stepd_steps_ended_total{status="uncertain"}': "0x25 1x15"},
    "StepdLeasesLapse": {"stepd_attempts_orphaned_total": "0+2x40"},
    "StepdOrphansStay": {"stepd_orphans": "1x40"},
    "StepdSettlementsRefused": {'stepd_settlements_refused_total{reason="lease_lost"}': "0+1x40"},
    "StepdEventLoopSlow": {
        'stepd_event_loop_lag_seconds_bucket{le="0.5"}': "0x40",
        'stepd_event_loop_lag_seconds_bucket{le="1"}': "0+9x40",
        'stepd_event_loop_lag_seconds_bucket{le="+Inf"}': "0+9x40",
    },
    "StepdCommitsSlow": {
        'stepd_commit_seconds_bucket{le="0.1"}': "0x40",
        'stepd_commit_seconds_bucket{le="0.25"}': "0+9x40",
        'stepd_commit_seconds_bucket{le="+Inf"}': "0+9x40",
    },
    "StepdLoopFails": {'stepd_background_failures_total{loop="pulse"}': "0+1x40"},
    "StepdLoopStands": {'stepd_background_rounds_total{loop="pulse"}': "7x40"},
    "StepdErrors": {'stepd_http_requests_total{status="500"}': "0+1x40"},
    "StepdTracesLost": {
        'stepd_trace_spans_dropped_total{instance="a"}': "0+1x40",
        'stepd_trace_spans_failed_total{instance="a"}': "0x40",
    },
    "StepdKeysRefused": {'stepd_http_requests_total{status="401"}': "0+20x40"},
}
"""For each alert, values at whole minutes that make it come within 40 of them."""
GOES_WELL: Final[dict[str, str]] = {
    'up{job="stepd"}': "1x40",
    "stepd_store_in_step": "1x40",
    'stepd_steps_queued_oldest_seconds{workflow="w"}': "3x40",
    'stepd_steps_blocked{workflow="w"}': "0x40",
    'stepd_executions{status="reconciliation_required"}': "0x40",
    'stepd_steps_ended_total{status="uncertain"}': "0x40",
    'stepd_steps_ended_total{status="succeeded"}': "0+1000x40",
    "stepd_attempts_orphaned_total": "0x40",
    "stepd_orphans": "0 1 0x38",
    'stepd_settlements_refused_total{reason="lease_lost"}': "0x40",
    'stepd_event_loop_lag_seconds_bucket{le="0.001"}': "0+240x40",
    'stepd_event_loop_lag_seconds_bucket{le="+Inf"}': "0+240x40",
    'stepd_commit_seconds_bucket{le="0.001"}': "0+900x40",
    'stepd_commit_seconds_bucket{le="+Inf"}': "0+900x40",
    'stepd_background_failures_total{loop="pulse"}': "0x40",
    'stepd_background_rounds_total{loop="pulse"}': "0+60x40",
    'stepd_http_requests_total{status="200"}': "0+9000x40",
    'stepd_http_requests_total{status="401"}': "0+1x40",
    'stepd_trace_spans_dropped_total{instance="a"}': "0x40",
    'stepd_trace_spans_failed_total{instance="a"}': "0x40",
}


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts().values())
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def test_they_name_figures_and_labels_that_there_are() -> None:
    declared = Metrics().declared
    names = {one.name for one in declared if one.kind != "histogram"}
    names |= {
        f"{one.name}_{part}" for one in declared if one.kind == "histogram" for part in ("bucket", "sum", "count")
    }
    labels = {label for one in declared for label in one.labels} | OF_PROMETHEUS
    for expression in expressions():
        assert set(FIGURE.findall(expression)) <= names, expression
        assert set(LABEL.findall(expression)) <= labels, expression
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        assert {label.strip() for group in grouped for label in group.split(",")} <= labels, expression


def test_every_alert_says_what_to_do() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert "\n## Alerts\n" in page
    told = re.findall(r"^\| `(Stepd\w+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert told == list(alerts())
    for rule in alerts().values():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "runbook"}
        assert rule["annotations"]["runbook"] == "docs/operations.md#alerts"


def test_panels_do_not_lie_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells


@needs_promtool
def test_the_rules_are_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool.judge("check", "rules", str(RULES))


@needs_promtool
def test_the_queries_of_the_dashboard_are_queries(tmp_path: Path) -> None:
    queries = [expression.replace("$__rate_interval", "5m") for expression in expressions()]
    rules = [{"record": f"q:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), "utf-8")
    assert f"{len(queries)} rules found" in promtool.judge("check", "rules", str(file))


@needs_promtool
def test_each_alert_comes_when_it_should_and_none_when_all_is_well(tmp_path: Path) -> None:
    assert COMES.keys() == alerts().keys()
    cases = [_case(series, {name}) for name, series in COMES.items()] + [_case(GOES_WELL, set())]
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}), "utf-8")
    assert "SUCCESS" in promtool.judge("test", "rules", str(file))


def _case(series: dict[str, str], comes: set[str]) -> dict[str, Any]:
    """After these values exactly those alerts are there; asked as queries, because their texts are not the matter."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "38m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in comes],
            }
        ],
    }


@needs_promtool
def test_a_scrape_is_as_prometheus_wants_it(tmp_path: Path) -> None:
    with running(tmp_path / "stepd.db") as daemon:
        http = Http(daemon.url)
        make_flow(http, read()).start()
        assert promtool.judge("check", "metrics", text=http.get("/metrics").text) == ""
