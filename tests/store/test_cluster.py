"""The throw-away PostgreSQL server that tests run on: it goes with its process, and runs as whoever runs the tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cluster
from tests.support.postgres import Cluster, query
from tests.support.wait import eventually

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "support" / "cluster.py"
HOLDER = """
from tests.support.postgres import Cluster
server = Cluster()
print(server.pid, server.log, flush=True)
input()
"""


def test_nothing_is_left_of_a_server_when_its_process_is_killed() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder.stdin, holder.stdout:
        pid, log = holder.stdout.readline().split()
        assert Path(log).exists()
        holder.kill()
        holder.wait(10)
    eventually(lambda: not Path(log).parent.exists() and not _lives(int(pid)), what="the server is gone")


def test_a_server_can_be_stopped_and_started_again() -> None:
    server = Cluster()
    try:
        query(server.url(), "create table kept (x int)")
        server.stop()
        with pytest.raises(OSError, match=r"(?i)connect"):
            query(server.url(), "select 1")
        server.start()
        assert query(server.url(), "select count(*) from kept") == [(0,)]
    finally:
        server.close()
    assert not server.log.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_programs_that_only_root_can_reach_are_copied(tmp_path: Path) -> None:
    home = cluster.programs().parent
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    package = hidden / home.parent.name
    shutil.copytree(home, package / home.name, symlinks=True)
    libraries = home.parent.with_name(f"{home.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, hidden / libraries.name)
    told = _run(os.environ | {cluster.PROGRAMS: str(package / home.name / "bin")})
    assert not told["bin"].startswith(str(hidden))


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run it as an ordinary user")
def test_an_ordinary_user_runs_the_server_itself() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    programs = cluster.programs()
    if python is None or not _can_run(python, programs / "postgres"):
        pytest.skip("an ordinary user can reach no Python, or not the programs")
    told = _run({cluster.PROGRAMS: str(programs), "PATH": os.defpath}, python, user="nobody")
    assert told["version"]


def _run(env: dict[str, str], python: str = sys.executable, user: str | None = None) -> dict[str, str]:
    """What the program says of the server it started."""
    source = PROGRAM.read_text("utf-8")
    done = subprocess.run(
        [python, "-I", "-c", source], input="", capture_output=True, text=True, env=env, user=user, cwd="/", timeout=60
    )
    told: dict[str, str] = json.loads(done.stdout)
    assert "error" not in told, told
    return told


def _can_run(python: str, program: Path) -> bool:
    code = f"import subprocess; subprocess.run([{str(program)!r}, '--version'], check=True)"
    return subprocess.run([python, "-c", code], user="nobody", cwd="/", capture_output=True).returncode == 0


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
