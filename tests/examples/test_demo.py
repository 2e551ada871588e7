"""The demo: it ends with 0 and a report, says what went wrong where something did, and leaves no process behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import clean_environment
from tests.support.process import ROOT
from tests.support.wait import eventually

DEMO = ROOT / "examples" / "catalogue" / "demo.py"
SECONDS = 90


def test_the_demo_works_from_start_to_end(tmp_path: Path) -> None:
    directory = _directory(tmp_path)
    demo = _demo("--folder", str(tmp_path / "demo"), "--directory", str(directory))
    said, trouble = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 0, said + trouble
    assert trouble == ""
    for part in (
        "attempt 1 failed: retryable: on purpose: the next attempt does it",
        "fingerprint_files[0]  attempt 2 running on demo-worker",
        "by hand it would be:\n$ stepd signal ID approval --payload",
        "approved           waits for a signal: approval",
        "0 changed; approved by 'the demo'",
        "execution          completed",
        f"Catalogue of {directory}",
        "20 files",
        "Nothing changed since the last run",
        "stepd serve --database sqlite:///",
    ):
        assert part in said
    _assert_gone(_processes(said))
    assert (tmp_path / "demo" / "stepd.db").exists()


def test_the_demo_says_what_is_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "stepd.db").write_bytes(b"")
    demo = _demo("--folder", str(tmp_path))
    _, trouble = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 1
    assert "stepd.db is there already" in trouble


def test_the_demo_says_what_failed_and_stops_everything(tmp_path: Path) -> None:
    demo = _demo("--folder", str(tmp_path / "demo"), "--directory", str(tmp_path / "gone"))
    said, trouble = demo.communicate(timeout=SECONDS)
    assert demo.returncode == 1
    assert "no_such_directory" in said
    assert "The demo did not work" in trouble
    assert "Traceback" not in trouble
    _assert_gone(_processes(said))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_demo_stops_everything_when_it_is_stopped(tmp_path: Path, number: signal.Signals, code: int) -> None:
    demo = _demo("--folder", str(tmp_path / "demo"), "--directory", str(_directory(tmp_path)))
    said = ""
    assert demo.stdout is not None
    while "worker" not in said:
        line = demo.stdout.readline()
        assert line, f"the demo ended early: {demo.communicate()[1]}"
        said += line
    demo.send_signal(number)
    demo.communicate(timeout=SECONDS)
    assert demo.returncode == code
    processes = _processes(said)
    assert len(processes) == 2
    _assert_gone(processes)


def _directory(folder: Path) -> Path:
    directory = folder / "found"
    directory.mkdir()
    for place in range(20):
        (directory / f"{place}.txt").write_text(f"{place}\n")
    return directory


def _demo(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(DEMO), *arguments],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _processes(said: str) -> list[int]:
    return [int(number) for number in re.findall(r"process (\d+)", said)]


def _assert_gone(processes: list[int]) -> None:
    assert processes
    eventually(lambda: not any(map(_is_alive, processes)), what=f"{processes} are gone")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
