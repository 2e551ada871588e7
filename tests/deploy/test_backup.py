"""Back up and restore, by the commands of docs/operations.md: what stood when the copy was taken stands again."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.client import Http, Json
from tests.support.daemon import running
from tests.support.definitions import read, write
from tests.support.flow import Run, make_flow
from tests.support.postgres import cluster, cluster_database

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
INPUT = {"text": "a\0b \uf8f0 é😀", "whole": 10**30, "real": 1.0}


class Place(Protocol):
    """A database that a daemon serves from, and how its administrator copies it."""

    @property
    def url(self) -> str: ...

    def back_up(self) -> None: ...

    def restore(self) -> str:
        """Puts the copy into a new place; its URL, for a daemon."""


class FilePlace:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory / 'stepd.db'}"

    def back_up(self) -> None:
        if shutil.which("sqlite3") is not None:
            run("sqlite3", self.directory, {})
            return
        # The same means without the program.
        with (
            closing(sqlite3.connect(self.directory / "stepd.db")) as from_,
            closing(sqlite3.connect(self.directory / "stepd-backup.db")) as to,
        ):
            from_.backup(to)

    def restore(self) -> str:
        place = self.directory / "restored.db"
        (self.directory / "stepd-backup.db").rename(place)
        return f"sqlite:///{place}"


class ServerPlace:
    def __init__(self, directory: Path, url: str, owner: str, empty: str, restored: str) -> None:
        self.directory, self.url, self.owner, self.empty, self.restored = directory, url, owner, empty, restored

    def back_up(self) -> None:
        run("pg_dump", self.directory, {"OWNER_URL": self.owner})

    def restore(self) -> str:
        run("pg_restore", self.directory, {"OWNER_URL": self.empty})
        return self.restored


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield FilePlace(tmp_path)
        return
    with cluster_database() as database, cluster_database(empty=True) as empty:
        yield ServerPlace(tmp_path, database.daemon_url, database.url, empty.url, empty.daemon_url)


def test_a_restored_copy_has_the_same_executions(place: Place, tmp_path: Path) -> None:
    with running(tmp_path / "first", database=place.url) as daemon:
        http = Http(daemon.url)
        work = make_flow(http, read(), write("pay", needs=["work"]))
        ended = work.start(input=INPUT, labels={"a": "b"}, correlation="c")
        for _ in range(2):
            work.claim_one().begin().complete(INPUT).expect(200)
        ended.until("completed")
        at_work = work.start(input=INPUT)
        lease = work.claim_one().begin()
        queued, planned = work.start(), work.start(start_at="2100-01-01T00:00:00Z")
        before = {run.id: seen(run) for run in (ended, at_work, queued, planned)}
        place.back_up()
        late = work.start()
        lease.complete({"n": 1}).expect(200)
    with running(tmp_path / "second", database=place.restore()) as daemon:
        http = Http(daemon.url)
        runs = {id_: Run(http, id_, ended.started) for id_ in before}
        assert {item["id"] for item in http.get("/v1/executions").expect(200)["items"]} == set(before)
        http.get(f"/v1/executions/{late.id}").expect_problem(404, "not_found")
        for id_, (view, events) in before.items():
            now, told = seen(runs[id_])
            assert told[: len(events)] == events
            assert {**now, "blocked": None, "steps": None} == {**view, "blocked": None, "steps": None}
        assert seen(runs[ended.id]) == before[ended.id]
        # The outcome that came after the copy was taken is sent again, as if it had never been.
        http.post(f"/v1/leases/{lease.id}/complete", {"fence": lease.fence, "output": {"n": 1}}).expect(200)
        assert runs[at_work.id].step("work")["status"] == "succeeded"


def seen(run: Run) -> tuple[Json, list[Json]]:
    return run.view(include="payloads"), run.events()


def run(program: str, directory: Path, env: Mapping[str, str]) -> None:
    """Runs the command that the page shows for this program."""
    (command,) = re.findall(rf"^{program} .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    path = f"{cluster().programs}{os.pathsep}{os.environ['PATH']}" if env else os.environ["PATH"]
    subprocess.run(["sh", "-ec", command], cwd=directory, env={"PATH": path, **env}, check=True, timeout=60)
