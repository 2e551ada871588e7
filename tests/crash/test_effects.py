"""Workers are killed right before, during and right after what they do outside: what that does to the outside world."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepd_worker import Client
from tests.crash.conftest import MakeDaemon
from tests.crash.outside import WORKFLOWS, Outside, outside
from tests.sdk.served import WorkerProcess, serving

SECONDS = 30.0
DOUBTFUL = {name for name in WORKFLOWS if name.startswith("non_idempotent_write") and not name.endswith("unbegun")}
DONE_OUTSIDE = ("during", "after")
IN_SHORT = ("idempotent_write-during", "non_idempotent_write-during", "non_idempotent_write-unbegun")


def die(url: str, world: Outside, folder: Path, name: str) -> None:
    """A worker that serves one workflow, and dies in its first body."""
    target = f"tests.crash.outside:{name.replace('-', '_')}"
    instant = name.rpartition("-")[2]
    worker = WorkerProcess(url, target, folder / f"{name}.log", "--name", "first", DIE_AT=instant, OUTSIDE=world.url)
    try:
        assert worker.ended(SECONDS) == -9
    finally:
        worker.close()


@pytest.mark.parametrize("names", [IN_SHORT, pytest.param(tuple(WORKFLOWS), marks=pytest.mark.soak)])
def test_what_a_killed_worker_leaves_outside(
    make_daemon: MakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    daemon = make_daemon().start()
    with outside() as world, Client(daemon.url) as client:
        monkeypatch.setenv("OUTSIDE", world.url)
        workflows = [WORKFLOWS[name] for name in names]
        for workflow in workflows:
            client.register(workflow.name, workflow.definition())
        ids = {name: client.start(name)["id"] for name in names}
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(lambda name: die(daemon.url, world, tmp_path, name), names))
        with serving(client, *workflows, url=daemon.url):
            views = {name: client.wait(id_, timeout_seconds=SECONDS) for name, id_ in ids.items()}
        for name, view in views.items():
            calls = world.calls[f"{view['id']}:{name.rpartition('-')[2]}"]
            if name in DOUBTFUL:
                assert view["status"] == "reconciliation_required", name
                assert calls == name.endswith(DONE_OUTSIDE), f"{name} was done {calls} times"
                check_evidence(client, view["id"])
            else:
                assert (view["status"], view["output"]) == ("completed", None), name
                assert calls == 1 + name.endswith(DONE_OUTSIDE), f"{name} was called for {calls} times"
        queue = client.list(status=["reconciliation_required"], order="oldest")["items"]
        assert [item["workflow"] for item in queue] == [name for name in names if name in DOUBTFUL]


def check_evidence(client: Client, id_: str) -> None:
    """The operator sees the attempt that was lost, and whose it was."""
    (step,) = client.get(id_, include=["attempts"])["steps"]
    assert (step["status"], step["error"]["class"]) == ("uncertain", "lost")
    (attempt,) = step["attempts"]
    assert (attempt["status"], attempt["worker"], attempt["effect"]) == ("lost", "first", "unknown")
    assert attempt["started_at"] is not None
