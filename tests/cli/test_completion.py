"""Shell completion: what a shell is offered, that nothing is said where the daemon is away, and how it is installed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.answers import page
from tests.cli.program import Program
from tests.sdk.peer import Peer, Reply
from tests.support.client import Http
from tests.support.daemon import STEPD, free_port
from tests.support.definitions import read, unique, wait, write
from tests.support.flow import make_flow, register


def offered(stepd: Program, *words: str) -> list[str]:
    """What is offered for the last of these words."""
    env = {
        "_STEPD_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["stepd", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = stepd(env=env).expect(0)
    assert result.err == ""
    return result.out.split()


def test_commands_are_completed(stepd: Program) -> None:
    assert offered(stepd, "wat") == ["watch"]
    assert "--follow" in offered(stepd, "events", "--fo")
    assert offered(stepd, "ls", "--status", "reco") == ["reconciliation_required"]


def test_ids_workflows_versions_steps_and_signals_are_completed(real: Program, http: Http) -> None:
    name = unique()
    for version in ("1.0", "2.0"):
        register(http, name, {"version": version, "steps": [read()]}).expect(201)
    assert offered(real, "start", name[:20]) == [name]
    assert offered(real, "start", name, "--version", "") == ["1.0", "2.0"]
    assert offered(real, "workflows", "use", name, "2") == ["2.0"]
    flow = make_flow(http, wait("w", event="approved"), write("charge"))
    run = flow.start()
    assert offered(real, "watch", run.id[:34]) == [run.id]
    assert offered(real, "signal", run.id, "") == ["approved"]
    assert offered(real, "resolve", run.id, "--absent", "ch") == ["charge"]
    assert offered(real, "watch", "no-such-id") == []
    assert offered(real, "resolve", run.id[:34]) == [], "it is not in doubt"


@pytest.mark.parametrize(
    "words", [("watch", ""), ("start", ""), ("signal", "some-id", ""), ("workflows", "use", "a", "")]
)
def test_where_no_daemon_answers_nothing_is_said(words: tuple[str, ...]) -> None:
    assert offered(Program(f"http://127.0.0.1:{free_port()}"), *words) == []


def test_a_daemon_that_keeps_silent_is_not_waited_for(peer: Peer, stepd: Program) -> None:
    peer.always("executions", Reply(200, b"", delay=20))
    began = time.monotonic()
    assert offered(stepd, "watch", "") == []
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("answer", [b"", b"no json", b"[1]", b'{"items": 7}', b'{"items": [1, null, {"id": 7}]}'])
def test_an_answer_of_another_kind_is_nothing(peer: Peer, stepd: Program, answer: bytes) -> None:
    peer.always("executions", Reply(200, answer))
    assert offered(stepd, "show", "") == []


def test_what_could_act_on_a_shell_is_not_offered(peer: Peer, stepd: Program) -> None:
    peer.always("workflows", page(*({"name": name} for name in ("good", "$(reboot)", "`x`", "a b", "\x1b[31m", "a;b"))))
    assert offered(stepd, "start", "") == ["good"]


def test_the_key_goes_to_the_daemon_that_was_named(peer: Peer) -> None:
    peer.always("workflows", page({"name": "mine"}))
    elsewhere = Program(f"http://127.0.0.1:{free_port()}")
    assert offered(elsewhere, "start", "--url", peer.url, "--key", "secret", "") == ["mine"]
    (call,) = peer.named("workflows")
    assert call.headers["authorization"] == "Bearer secret"


def test_it_is_installed_and_bash_takes_it(real: Program, http: Http, tmp_path: Path) -> None:
    run = make_flow(http, read()).start()
    env = real.environment({"HOME": str(tmp_path), "PATH": f"{STEPD.parent}:/usr/bin:/bin"})
    # The program looks for the shell that it was called from.
    install = ["bash", "-c", "stepd --install-completion; exit $?"]
    subprocess.run(install, env=env, check=True, capture_output=True, timeout=60)
    script = (
        'source ~/.bashrc; COMP_WORDS=(stepd watch "$1"); COMP_CWORD=2; '
        '_stepd_completion stepd; printf "%s" "${COMPREPLY[*]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", run.id[:34]], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == run.id, done.stderr
