"""The help: it documents the exit codes, and asking for it costs next to nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stepd.cli.exits import code_for_problem
from stepd_protocol.problems import PROBLEMS
from tests.cli.program import Program

HEAVY = {
    "aiohttp",
    "asyncio",
    "rich",
    "hypercorn",
    "starlette",
    "stepd_worker",
    "stepd.store",
    "stepd.engine",
}


@pytest.mark.parametrize("command", ["start", "watch"])
def test_commands_that_wait_say_what_their_exit_codes_mean(stepd: Program, command: str) -> None:
    text = stepd(command, "--help").expect(0).out
    for line in (
        "  1    it failed\n",
        "  2    it was cancelled\n",
        "  3    it needs reconciliation",
        "  69   no daemon",
    ):
        assert line in text


def test_every_command_has_a_line_of_help_that_is_not_cut(stepd: Program) -> None:
    text = stepd("--help").expect(0).out
    commands = text[text.index("Commands:") :]
    names = (
        "serve start ls show watch events top signal publish cancel pause resume resolve workflows simulate usage "
        "prices keys audit doctor"
    )
    for command in names.split():
        assert f"\n  {command} " in commands
    assert "..." not in commands


def test_the_readme_names_every_command(stepd: Program) -> None:
    listed = re.findall(r"^  ([a-z]+)  +[A-Z]", stepd("--help").expect(0).out.partition("Commands:")[2], re.MULTILINE)
    page = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| (`stepd [^|]*) \|", page[page.index("## The command line") :], re.MULTILINE)
    named = [word for row in rows for word in re.findall(r"[a-z]+", row) if word != "stepd"]
    assert sorted(named) == sorted(listed)


def test_help_imports_nothing_that_takes_time() -> None:
    code = (
        "import sys\nfrom stepd.cli import main\nsys.argv = ['stepd', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "stepd.cli.start" in imported
    assert not imported & HEAVY


def test_no_refusal_ends_like_an_execution() -> None:
    codes = {code_for_problem(kind.status, code) for code, kind in PROBLEMS.items()}
    assert codes == {65, 66, 69, 70, 77}
