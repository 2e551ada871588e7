"""`python -m stepd_worker show`: the definition as it would be registered, and its picture."""

import json
import subprocess
import sys
from typing import Any

import pytest

from stepd_worker import Context, Repeat, Rule, Workflow
from stepd_worker.__main__ import main
from stepd_worker.mermaid import mermaid
from tests.support.process import ROOT

shown = Workflow("shown", "3", on_failure="compensate", output={"kept": True})


@shown.step(effect="read_only", retry={"max_attempts": 5})
def fetch(ctx: Context, input: Any) -> Any: ...


shown.wait("approved", event="approval", timeout_seconds=60, when='steps.fetch.output.label == "big"')
shown.sleep("rest", seconds=5, needs=fetch)
shown.decision("route", rules=[Rule(when="true", then=1)], needs=["approved", "rest"])
shown.task("each", effect="idempotent_write", foreach="input.items", max_parallel=4, compensate="undo")
shown.task("undo", effect="idempotent_write")
shown.workflow("talk", workflow="chat", repeat=Repeat(until="last.done", max=9))


def test_the_picture_has_every_step_every_need_and_every_condition() -> None:
    assert mermaid(shown).splitlines() == [
        "flowchart TD",
        '    s0["fetch<br/>read_only<br/>5 attempts at most"]',
        '    s1(["approved<br/>waits for approval<br/>60 s at most"])',
        '    s2(["rest<br/>sleeps 5 s"])',
        '    s3{"route<br/>first"}',
        '    s4["each<br/>idempotent_write<br/>for each of input.items, 4 at once"]',
        '    s5["undo<br/>idempotent_write"]',
        '    s6[["talk<br/>runs chat"]]',
        '    s0 -->|"when steps.fetch.output.label == #quot;big#quot;"| s1',
        "    s0 --> s2",
        "    s1 --> s3",
        "    s2 --> s3",
        "    s3 --> s4",
        "    s4 --> s6",
        '    s6 -->|"until last.done"| s6',
        '    s4 -. "undone by" .-> s5',
        "    class s5 compensation",
        "    classDef compensation stroke-dasharray: 4",
    ]


def test_the_command_prints_json_and_picture() -> None:
    command = [sys.executable, "-m", "stepd_worker", "show", "tests.sdk.test_show:shown"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    definition, _, picture = told.stdout.partition("\n\n")
    assert json.loads(definition) == shown.definition()
    assert picture.strip() == mermaid(shown)


@pytest.mark.parametrize("flag", ["--json", "--mermaid"])
def test_each_can_be_had_alone(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "tests.sdk.test_show:shown", flag]) == 0
    told = capsys.readouterr().out
    assert told.startswith("{") == (flag == "--json")
    assert ("flowchart" in told) == (flag == "--mermaid")


def test_what_is_no_workflow_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "tests.sdk.test_show:missing"]) == 2
    assert "it has: shown" in capsys.readouterr().err
