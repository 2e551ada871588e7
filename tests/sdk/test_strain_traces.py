"""What a body has traced when its process forks, or is killed."""

from pathlib import Path
from typing import Any

import pytest

from stepd_worker import Client
from tests.sdk.served import worker_process
from tests.support.client import Http
from tests.support.daemon import Daemon
from tests.support.wait import eventually

SECONDS = 20.0


def spans_of(daemon: Daemon, view: dict[str, Any]) -> list[str]:
    """The names of what the worker sent."""
    found = Http(daemon.url).get(f"/v1/executions/{view['id']}/spans").expect(200)["items"]
    return [span["name"] for span in found if not any(key.startswith("stepd.") for key in span["attributes"])]


@pytest.mark.parametrize("is_traced", [False, True])
def test_a_forked_child_adds_nothing(daemon: Daemon, client: Client, tmp_path: Path, is_traced: bool) -> None:
    target = "tests.sdk.traced_bodies:forked"
    environment = {"OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"} if is_traced else {}
    with worker_process(daemon.url, target, tmp_path / "worker.log", **environment):
        view = client.wait(client.start("traced-forked")["id"], timeout_seconds=SECONDS)
        view = client.get(view["id"], include=["payloads"])
    assert [step["output"] for step in view["steps"]] == [7]
    assert spans_of(daemon, view) == ["parent"]


def test_what_was_sent_before_a_kill_is_kept_and_counts(daemon: Daemon, client: Client, tmp_path: Path) -> None:
    with worker_process(daemon.url, "tests.sdk.traced_bodies:killed", tmp_path / "worker.log"):
        view = client.start("traced-killed")
        eventually(lambda: "paid" in spans_of(daemon, view), seconds=SECONDS, what="a heartbeat to bring the span")
    ended = client.wait(view["id"], timeout_seconds=SECONDS)
    assert (ended["status"], ended["error"]["class"]) == ("failed", "lost")
    assert ended["usage"]["output_tokens"] == 5
    assert spans_of(daemon, view) == ["paid"]
