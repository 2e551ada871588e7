"""docs/tutorial.md: its commands, in their order and with real processes, come to what the page says."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from stepd.cli.exits import Ended
from tests.docs.pages import ROOT, program
from tests.support.client import Http
from tests.support.daemon import clean_environment, free_port
from tests.support.wait import eventually

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 60.0
# Commands that stay in their terminal; started again, the one before is stopped.
STAYS = ("stepd serve", "python -m stepd_worker serve")


@dataclass
class Reader:
    """Somebody who follows the page in a folder: three terminals, and the variable of the third.

    Daemon and worker are processes; the other commands run in this one, by the code that they are made of.
    """

    folder: Path
    environment: dict[str, str]
    terminals: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    id: str = ""
    typed: str = ""
    said: str = ""

    def run(self, block: str) -> None:
        """Types a block, and waits for its end unless it stays."""
        stays = next((command for command in STAYS if block.startswith(command)), None)
        if stays is not None:
            self._start(stays, block)
            return
        self.typed, self.said = block, ""
        for line in block.splitlines():
            self.said += self._typed(line)

    def _typed(self, line: str) -> str:
        """What one line prints: a command, one whose output becomes `id`, or one with another for when it fails."""
        command, _, otherwise = line.partition(" || ")
        kept = re.fullmatch(r"id=\$\((.*)\)", command)
        code, said = self._command(shlex.split((kept[1] if kept else command).replace("$id", self.id)))
        if kept:
            self.id = said.strip()
        if code and otherwise:
            return said + self._typed(otherwise)
        assert code == 0, f"{line}\n{said}"
        return said

    def _command(self, words: list[str]) -> tuple[int, str]:
        match words:
            case ["stepd", *arguments]:
                result = CliRunner().invoke(program(), arguments, env=self.environment)
                ended = result.exception
                return ended.code if isinstance(ended, Ended) else result.exit_code, result.output
            case ["python", "-m", "stepd_worker", *arguments]:
                done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
                return done.returncode, done.stdout
            case ["cat", name]:
                return 0, (self.folder / name).read_text()
            case ["echo", text]:
                return 0, text
        raise AssertionError(f"The page shows a command that its test does not know: {words}")

    def check(self, lines: list[str]) -> None:
        """What was said last has these lines. A look is taken again until it has: the worker may be a moment behind."""
        if self.typed.startswith("stepd show"):
            eventually(lambda: self._look_again(lines), seconds=SECONDS, what=f"it shows {lines}")
        assert self._has(lines), f"{lines} are not in\n{self.said}"

    def close(self) -> None:
        """Stops what still runs."""
        for process in self.terminals.values():
            process.kill()
            process.wait()

    def _look_again(self, lines: list[str]) -> bool:
        self.run(self.typed)
        return self._has(lines)

    def _has(self, lines: list[str]) -> bool:
        return all(line in self.said for line in lines)

    def _start(self, stays: str, block: str) -> None:
        before = self.terminals.pop(stays, None)
        if before is not None:
            # The daemon as roughly as the page allows, the worker as the page says.
            before.send_signal(signal.SIGKILL if stays == "stepd serve" else signal.SIGINT)
            before.wait(SECONDS)
        log = self.folder / f"{len(self.terminals)}.log"
        with log.open("wb") as output:
            self.terminals[stays] = subprocess.Popen(
                block.split(), cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
        eventually(lambda: self._is_ready(stays, log), seconds=SECONDS, every=0.1, what=f"{block.strip()} is ready")

    def _is_ready(self, stays: str, log: Path) -> bool:
        assert self.terminals[stays].poll() is None, log.read_text()
        if stays != "stepd serve":
            return "Serving " in log.read_text()
        try:
            return Http(self.environment["STEPD_URL"]).send("GET", "/readyz", timeout=2).status == 200
        except OSError:
            return False


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """A reader in a new folder, with a daemon's port of their own."""
    port = free_port()
    environment = clean_environment() | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "STEPD_BIND": f"127.0.0.1:{port}",
        "STEPD_URL": f"http://127.0.0.1:{port}",
    }
    reader = Reader(folder, environment)
    try:
        yield reader
    finally:
        reader.close()


def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    assert "Save this as `expenses.py`" in page
    checked = 0
    with reading(tmp_path) as reader:
        for language, content in _BLOCK.findall(page):
            match language:
                case "python":
                    (tmp_path / "expenses.py").write_text(content)
                case "sh" if "make setup" not in content:
                    reader.run(content)
                case "text":
                    reader.check(content.splitlines())
                    checked += 1
    assert checked == page.count("```text")
    assert "chair" in (tmp_path / "paid.txt").read_text()
    assert "desk" not in (tmp_path / "paid.txt").read_text()
