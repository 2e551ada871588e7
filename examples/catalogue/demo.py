"""The demo: a daemon on a fresh file, a worker, an execution shown live, its report; then everything is stopped.

`make demo`, or `python examples/catalogue/demo.py --directory /some/folder`. Ends with 0 when all went well.
"""

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

ROOT: Final = Path(__file__).resolve().parents[2]
STEPD: Final = Path(sys.executable).with_name("stepd")
READY_SECONDS: Final = 30.0
RUN_SECONDS: Final = 300.0
# The worker lets its bodies end first, and the daemon waits for workers; both are idle by then.
STOP_SECONDS: Final = 10.0
LOG_LINES: Final = 20

# The daemon is on this machine: no proxy stands between.
_HTTP: Final = build_opener(ProxyHandler({}))


class Trouble(Exception):
    """What went wrong, for the person at the terminal."""


class Service:
    """A process that runs beside the demo, with a log of its own."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            # In a session of its own: Ctrl-C reaches the demo alone, which then stops its processes in order.
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Waits until `ready`. Raises Trouble with the log's end where the process ends first, or time is up."""
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            if self._process.poll() is not None:
                raise Trouble(f"The {self.name} ended with {self._process.returncode}.{self._log_end()}")
            if time.monotonic() > deadline:
                raise Trouble(f"The {self.name} {what} not within {READY_SECONDS:.0f} s.{self._log_end()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Asks it to stop, and makes sure that it does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(["", f"The end of {self.log}:", *(f"  {line}" for line in lines)])


def main() -> int:
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        folder = (given.folder or Path(tempfile.mkdtemp(prefix="stepd-demo-"))).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        run_demo(folder, given.directory)
    except (Trouble, OSError) as trouble:
        print(f"The demo did not work: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; daemon and worker are stopped.", file=sys.stderr)
        return 130
    return 0


def run_demo(folder: Path, directory: Path | None) -> None:
    """The whole demo, with its files in `folder`. Raises Trouble."""
    if not STEPD.exists():
        raise Trouble(f"{STEPD} is missing: run `make setup` first.")
    url, database = f"http://127.0.0.1:{_free_port()}", folder / "stepd.db"
    if database.exists():
        raise Trouble(f"{database} is there already: the demo needs a fresh folder.")
    own = {name: value for name, value in os.environ.items() if not name.startswith("STEPD_")}
    environment = own | {"STEPD_URL": url}
    serve: list[str | Path] = [
        STEPD,
        "serve",
        "--bind",
        url.removeprefix("http://"),
        "--database",
        f"sqlite:///{database}",
    ]
    work: list[str | Path] = [sys.executable, "-m", "examples.catalogue.worker"]
    say(f"stepd demo, with its files in {folder}")
    with _running("daemon", serve, folder, environment) as daemon:
        daemon.wait_until(lambda: _answers(f"{url}/readyz"), "was ready")
        say(f"  daemon   {url}, process {daemon.pid}, data in {database.name}")
        with _running("worker", work, folder, environment | {"STEPD_WORKER_NAME": "demo-worker"}) as worker:
            worker.wait_until(lambda: _answers(f"{url}/v1/workflows/catalogue"), "registered its workflow")
            say(f"  worker   demo-worker, process {worker.pid}, holds the workflow `catalogue`")
            order = {"folder": str(folder / "catalogue")} | ({"directory": str(directory)} if directory else {})
            first = _run_execution(order | {"stumble": True}, environment, approves=True)
            say("\n".join(first["output"]["report"]))
            second = _run_execution(order, environment, approves=False)
            say(second["output"]["report"][-1].strip())
    _say_where_to_look(folder, database, first["id"])


def say(text: str) -> None:
    """Prints at once, so that what child processes print stands in its place."""
    print(text, flush=True)


def _run_execution(order: dict[str, Any], environment: dict[str, str], *, approves: bool) -> dict[str, Any]:
    """Starts an execution and waits for it by the command line, as a person would; its view. Raises Trouble.

    With `approves` it is shown, and the demo says yes where it waits for a person.
    """
    start = ["start", "catalogue", "--input", json.dumps(order), "--wait"]
    say(f"\n$ stepd {shlex.join(start)}")
    if approves:
        say(f"Before it publishes, it waits for a person. The demo answers; by hand it would be:\n$ {_approval('ID')}")
    with _started(start, environment, shown=approves) as running:
        if approves:
            _approve(running, environment)
        _ended(running, start)
    say("")
    view = _newest(environment)
    if view is None:
        raise Trouble("The execution that was started is not there.")
    return view


def _approve(running: "subprocess.Popen[bytes]", environment: dict[str, str]) -> None:
    """Says yes once the execution waits for it; nothing where it ends before. Raises Trouble."""
    deadline = time.monotonic() + RUN_SECONDS
    while running.poll() is None:
        view = _newest(environment)
        if view is not None and any(step["id"] == "approved" and step["status"] == "waiting" for step in view["steps"]):
            signal_it = shlex.split(_approval(view["id"]))[1:]
            with _started(signal_it, environment, shown=False) as sent:
                _ended(sent, signal_it)
            return
        if time.monotonic() > deadline:
            raise Trouble(f"Nothing waited for an approval within {RUN_SECONDS:.0f} s.")
        time.sleep(0.1)


def _approval(execution: str) -> str:
    """The command that says yes."""
    payload = json.dumps({"by": "the demo", "publish": True})
    return f"stepd signal {execution} approval --payload {shlex.quote(payload)}"


def _newest(environment: dict[str, str]) -> dict[str, Any] | None:
    """The view of the newest execution; None before there is one."""
    executions = f"{environment['STEPD_URL']}/v1/executions"
    items = _get(f"{executions}?workflow=catalogue&limit=1")["items"]
    view: dict[str, Any] | None = _get(f"{executions}/{items[0]['id']}") if items else None
    return view


@contextmanager
def _started(
    arguments: Sequence[str], environment: dict[str, str], *, shown: bool
) -> "Iterator[subprocess.Popen[bytes]]":
    """A command of stepd that runs; the terminal has what it prints if that is to be shown."""
    process = subprocess.Popen(
        [STEPD, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=None if shown else subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _ended(process: "subprocess.Popen[bytes]", arguments: Sequence[str]) -> None:
    """Waits for a command's good end. Raises Trouble for any other."""
    try:
        code = process.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise Trouble(f"`stepd {shlex.join(arguments)}` took more than {RUN_SECONDS:.0f} s.") from None
    if code:
        raise Trouble(f"`stepd {shlex.join(arguments)}` ended with {code}.")


def _say_where_to_look(folder: Path, database: Path, execution: str) -> None:
    say(
        f"\nDaemon and worker are stopped; what they wrote is kept. To look at it, start the daemon again:\n"
        f"  {_from_here(STEPD)} serve --database sqlite:///{database}\n"
        f"and in another terminal:\n"
        f"  {_from_here(STEPD)} ls\n"
        f"  {_from_here(STEPD)} show {execution} --attempts\n"
        f"  {_from_here(STEPD)} events {execution}\n"
        f"The catalogue is {folder / 'catalogue' / 'catalogue.json'}; the logs of both are beside stepd.db.\n"
        f"When you have seen enough: rm -r {folder}"
    )


def _from_here(path: Path) -> str:
    """The path as one would type it in this folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@contextmanager
def _running(name: str, command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> Iterator[Service]:
    service = Service(name, command, folder, environment)
    try:
        yield service
    finally:
        service.stop()


def _answers(url: str) -> bool:
    """Whether a GET is answered with a success."""
    try:
        _get(url)
    except HTTPError as refusal:
        refusal.close()
        return False
    except OSError:
        return False
    return True


def _get(url: str) -> Any:
    """The JSON that a GET is answered with. Raises HTTPError for a refusal, OSError for no answer."""
    with _HTTP.open(url, timeout=5) as answer:
        return json.load(answer)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Runs the catalogue example from start to end.")
    parser.add_argument(
        "--directory",
        type=lambda text: Path(text).absolute(),
        help="what to catalogue; else the standard library of this Python",
    )
    parser.add_argument("--folder", type=Path, help="where the demo's files go; else a new temporary folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
