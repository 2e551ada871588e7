"""The smallest worker and its twin in curl: what the pages say works."""

import json
import shutil

import pytest

from examples.hello.worker import hello
from stepd_worker import Client
from tests.cli.program import Program
from tests.examples.conftest import StartWorker
from tests.support.wait import eventually

needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("jq") is None, reason="the example needs curl and jq"
)


def test_hello_greets(stepd: Program, start_worker: StartWorker) -> None:
    start_worker("python", "examples/hello/worker.py")
    assert greeted(stepd, '{"name": "Ada"}') == {"greeting": "Hello, Ada!"}


def test_hello_runs_by_the_sdks_own_command_too(stepd: Program, start_worker: StartWorker) -> None:
    start_worker("python", "-m", "stepd_worker", "serve", "examples.hello.worker:hello")
    assert greeted(stepd, '{"name": "Bea"}') == {"greeting": "Hello, Bea!"}


@needs_curl
def test_curl_greets_and_fails_by_the_five_calls(stepd: Program, start_worker: StartWorker) -> None:
    worker = start_worker("sh", "examples/curl/worker.sh", "2")
    assert greeted(stepd, '{"name": "Cy \\"the\\" é"}') == {"greeting": 'Hello, Cy "the" é!'}
    failed = stepd("start", "hello", "--input", "{}", "--wait").expect(1)
    assert "fatal: the input has no name" in failed.out
    said, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0, said
    with Client(stepd.url) as client:
        version = client.register("hello", hello.definition())["version"]
    assert said.splitlines() == [
        f"registered hello {version}",
        "completed, the execution is completed",
        "failed: step_failed",
    ]


@needs_curl
def test_curl_says_what_is_wrong_where_no_daemon_answers(start_worker: StartWorker) -> None:
    worker = start_worker("env", "STEPD_URL=http://127.0.0.1:1", "sh", "examples/curl/worker.sh")
    said, _ = worker.communicate(timeout=30)
    assert worker.returncode != 0
    assert "127.0.0.1" in said


def greeted(stepd: Program, input: str) -> object:
    """The output of an execution of `hello`, once its workflow is registered."""
    eventually(lambda: "hello" in stepd("workflows").out, seconds=30, every=0.2, what="hello is registered")
    view = json.loads(stepd("start", "hello", "--input", input, "--wait", "--json").expect(0).out)
    return view["output"]
