"""The catalogue of integrations: what it refuses, and the ready worker that serves it, against a real daemon."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepd_worker import Client
from stepd_worker.http import read_catalogue, workflows_of
from tests.sdk.running import wait_for
from tests.sdk.served import is_served, serving
from tests.sdk.service import plain, running_service
from tests.support.daemon import Daemon
from tests.support.process import ROOT, running_program

SOUND = (
    '[[capability]]\nname = "pay"\nversion = "1"\nmethod = "POST"\nurl = "https://p.example/c"\neffect = "read_only"\n'
)
SECONDS = 20.0


def refused(folder: Path, content: str) -> str:
    """What a catalogue is refused with."""
    file = folder / "integrations.toml"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"\.(toml|json)") as refusal:
        read_catalogue(file, {"LINE": "a\nb"})
    return str(refusal.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s + "[[", "not valid"),
        (lambda s: s + "retries = 3", "retries"),
        (lambda s: s.replace("POST", "STEAL"), "STEAL"),
        (lambda s: s.replace('version = "1"\n', ""), "version"),
        (lambda s: s.replace("read_only", "harmless"), "harmless"),
        (lambda s: s.replace("https://p.example/c", "file:///etc/passwd"), "address"),
        (lambda s: s.replace("https://p", "https://me:secret@p"), "user name or password"),
        (lambda s: s.replace("p.example", "${HOST}"), "environment variable HOST, which is not set"),
        (lambda s: s + 'headers = { A = "${KEY}" }', "environment variable KEY, which is not set"),
        (lambda s: s + 'headers = { A = "${LINE}" }', "what no header can"),
        (lambda s: s + 'headers = { Host = "x" }', "'Host' is no header"),
        (lambda s: s + 'body = { "$output" = "/x" }', r"$output"),
        (lambda s: s + 'body = { "$input" = "x" }', "no JSON Pointer"),
        (lambda s: s + 'output = { "$body" = "/x", defualt = 1 }', "defualt"),
        (lambda s: s.replace("POST", "GET") + "body = {}", "a GET has no body"),
        (lambda s: s + "timeout_seconds = 0", "timeout_seconds"),
        (lambda s: s + "success = [1000]", "success"),
        (lambda s: s + s, "two capabilities pay@1"),
        (
            lambda s: s + '[[workflow]]\nname = "w"\ndefinition = "gone.json"\n[workflow.steps]\na = "pay@1"',
            "gone.json",
        ),
    ],
)
def test_a_catalogue_that_is_not_sound_is_refused_with_what_to_do(tmp_path: Path, change: Any, says: str) -> None:
    told = refused(tmp_path, change(SOUND))
    assert says in told
    assert "secret" not in told


def test_a_catalogue_is_empty_by_default(tmp_path: Path) -> None:
    (tmp_path / "integrations.toml").write_text("")
    catalogue = read_catalogue(tmp_path / "integrations.toml")
    assert (catalogue.capabilities, catalogue.workflows) == ({}, ())
    with pytest.raises(ValueError, match=r"gone\.toml cannot be read"):
        read_catalogue(tmp_path / "gone.toml")


def _catalogue(folder: Path, steps: str, *, effect: str = "read_only", more: str = "") -> Path:
    definition = {"steps": [{"id": "look", "effect": "read_only"}], "output": {"$cel": "steps.look.output"}}
    (folder / "flow.json").write_text(json.dumps(definition))
    file = folder / "integrations.toml"
    served = f'[[workflow]]\nname = "by-http"\ndefinition = "flow.json"\n[workflow.steps]\n{steps}\n'
    file.write_text(SOUND.replace("read_only", effect) + more + "\n" + served)
    return file


def test_steps_and_capabilities_must_go_together(tmp_path: Path) -> None:
    (flow,) = workflows_of(
        read_catalogue(_catalogue(tmp_path, 'look = "pay@1"', more="input_schema = {type='object'}"))
    )
    assert flow.definition()["steps"][0]["input_schema"] == {"type": "object"}
    assert flow.bodies["look"].effect == "read_only"
    for steps, effect, says in (
        ('look = "pay@1"', "idempotent_write", "they must say the same"),
        ('gone = "pay@1"', "read_only", "no task 'gone'"),
        ("", "read_only", "has no steps in the catalogue"),
    ):
        with pytest.raises(ValueError, match=says):
            workflows_of(read_catalogue(_catalogue(tmp_path, steps, effect=effect)))
    (flow,) = workflows_of(read_catalogue(_catalogue(tmp_path, 'look = "other@9"')))
    assert list(flow.bodies) == ["look"], "it is served, to say that the integration is missing"


def _command(catalogue: Path, url: str | None = None) -> list[str]:
    where = [] if url is None else ["--url", url]
    return [sys.executable, "-m", "stepd_worker", "http", "--catalogue", str(catalogue), *where]


def test_the_ready_worker_runs_steps_without_code(daemon: Daemon, client: Client, tmp_path: Path) -> None:
    answers = iter([plain(503, b"", "Retry-After: 0"), plain(200, b'{"name": "Ada", "age": 36}')])
    with running_service(lambda _: next(answers)) as service:
        more = (
            'headers = { X-Key = "${KEY_OF_PEOPLE}" }\nbody = { who = { "$input" = "/id" } }'
            '\noutput = { name = { "$body" = "/name" } }'
        )
        file = _catalogue(tmp_path, 'look = "pay@1"', more=more)
        file.write_text(file.read_text().replace("https://p.example", "${PEOPLE}"))
        definition = json.loads((tmp_path / "flow.json").read_text())
        definition["steps"][0]["retry"] = {"initial_seconds": 0.05}
        (tmp_path / "flow.json").write_text(json.dumps(definition))
        with running_program(*_command(file, daemon.url), KEY_OF_PEOPLE="k-1", PEOPLE=service.url) as worker:
            wait_for(lambda: worker.poll() is not None or is_served(client, "by-http"), "the worker to serve")
            started = client.start("by-http", {"id": 7})
            assert client.result(started["id"], timeout_seconds=SECONDS) == {"name": "Ada"}
        assert worker.returncode == 0
    assert [one.headers["x-key"] for one in service.asked] == ["k-1", "k-1"]
    assert [json.loads(one.body) for one in service.asked] == [{"who": 7}, {"who": 7}]
    assert client.get(started["id"])["steps"][0]["attempt"] == 2


def test_a_call_ends_before_its_lease_does(daemon: Daemon, client: Client, tmp_path: Path) -> None:
    file = _catalogue(tmp_path, 'look = "pay@1"', more="timeout_seconds = 60")
    definition = {"steps": [{"id": "look", "effect": "read_only", "retry": {"max_attempts": 1}}]}
    (tmp_path / "flow.json").write_text(json.dumps(definition))
    with running_service(lambda _: [30.0]) as service:
        file.write_text(file.read_text().replace("https://p.example", service.url).replace("by-http", "slow-http"))
        with serving(client, *workflows_of(read_catalogue(file))):
            started = client.start("slow-http")
            view = client.wait(started["id"], timeout_seconds=SECONDS)
    assert view["status"] == "failed"
    assert view["error"]["class"] == "retryable", "its own word, within the second that the lease lasts"
    assert "took too long" in view["error"]["message"]
    assert view["steps"][0]["attempt"] == 1


def test_the_command_says_what_is_wrong_with_a_catalogue(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    told = subprocess.run(
        _command(tmp_path / "empty.toml"), cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (2, "")
    assert "serves nothing: name a [[workflow]]" in told.stderr


def test_the_page_shows_a_catalogue_that_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "integrations.md").read_text("utf-8")
    (tmp_path / "integrations.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    steps = [{"id": "find", "effect": "read_only"}, {"id": "charge", "effect": "non_idempotent_write"}]
    (tmp_path / "order.json").write_text(json.dumps({"steps": steps}))
    catalogue = read_catalogue(tmp_path / "integrations.toml", {"PAYMENTS_URL": "https://pay", "PAYMENTS_KEY": "k"})
    (flow,) = workflows_of(catalogue)
    assert list(flow.bodies) == ["find", "charge"]
    assert "Bearer" not in repr(catalogue), "what the environment gave is not shown"
    built: dict[str, Any] = {"catalogue": catalogue}
    program = page.partition("## In a program")[2].partition("```python\n")[2].partition("```")[0]
    exec(program.replace('read_catalogue("integrations.toml")', "given"), built | {"given": catalogue}, built)
    assert list(built["order"].bodies) == ["find", "charge"]
