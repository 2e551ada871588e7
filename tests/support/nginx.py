"""A real nginx for tests, with the files of `deploy/nginx` and only its addresses and paths changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tests.support import debian
from tests.support.client import Http
from tests.support.daemon import free_port
from tests.support.wait import eventually

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ROOT / "deploy" / "nginx"
NAMED: Final = "STEPD_TEST_NGINX"
"""Names the program, where it is not on the path."""
OURS: Final = re.compile(r"^    (server [^ ]+:\d+ |ssl_)")
"""Lines that a test has others for, or none: the daemons' addresses, and TLS."""
MAIN: Final = """
daemon off;
pid {home}/nginx.pid;
worker_processes 1;
error_log {home}/error.log info;
events {{ worker_connections 256; }}
http {{
    access_log {home}/access.log;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    include {home}/site.conf;
}}
"""


@cache
def program() -> Path | None:
    """The program: that of the machine, else of Debian's package, which is only unpacked; None where there is none."""
    found = debian.program("nginx", "usr/sbin/nginx", named=NAMED)
    return found if found is not None and _runs(found) else None


@contextmanager
def proxying(home: Path, site: str, addresses: Sequence[str], *changes: tuple[str, str]) -> Iterator[Http]:
    """nginx with that site in front of daemons at these addresses, without TLS; a client of it."""
    command, port = program(), free_port()
    assert command is not None
    text = (FILES / site).read_text("utf-8")
    lines = [line for line in text.splitlines(keepends=True) if not OURS.match(line)]
    servers = "".join(f"    server {address} max_fails=1 fail_timeout=2s;\n" for address in addresses)
    text = "".join(lines).replace("    least_conn;\n", f"    least_conn;\n{servers}")
    listens = next(line.strip() for line in lines if line.lstrip().startswith("listen "))
    for old, new in (
        (listens, f"listen 127.0.0.1:{port};"),
        ("/etc/nginx/stepd-proxy.inc", f"{home}/proxy.inc"),
        *changes,
    ):
        assert old in text
        text = text.replace(old, new)
    (home / "site.conf").write_text(text)
    shutil.copy(FILES / "stepd-proxy.inc", home / "proxy.inc")
    (home / "nginx.conf").write_text(MAIN.format(home=home))
    process = subprocess.Popen(
        [command, "-p", home, "-c", home / "nginx.conf", "-e", home / "error.log", "-g", _user()]
    )
    http = Http(f"http://127.0.0.1:{port}")
    try:
        eventually(lambda: _answers(http) or process.poll() is not None, what="nginx answers")
        assert process.poll() is None, (home / "error.log").read_text()
        yield http
    finally:
        process.terminate()
        process.wait(10)


def check_site(home: Path, site: str) -> str:
    """What nginx says of a site without serving it."""
    command = program()
    assert command is not None
    (home / "site.conf").write_text(site)
    (home / "nginx.conf").write_text(MAIN.format(home=home))
    done = subprocess.run(
        [command, "-t", "-p", home, "-c", home / "nginx.conf", "-e", home / "error.log", "-g", _user()],
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stderr


def _runs(command: Path) -> bool:
    return subprocess.run([command, "-v"], capture_output=True).returncode == 0


def _user() -> str:
    """As root, its worker would change to a user who may not exist here."""
    return "user root;" if os.geteuid() == 0 else ""


def _answers(http: Http) -> bool:
    try:
        return http.get("/healthz").status in (200, 502)
    except OSError:
        return False
