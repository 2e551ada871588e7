"""Examines the daemon that clients would find: does it answer, is it ready, is it this store's and this version's."""

import http.client
import ssl
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from time import time
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from stepd.doctor.database import Holding
from stepd.doctor.findings import Finding, ok, warning, wrong
from stepd.store.records import ServiceRow
from stepd_worker.transport import Endpoint

ANSWER_SECONDS: Final = 5.0
ANSWER_BYTES_MAX: Final = 65_536
CLOCKS_APART_SECONDS: Final = 5.0

ELSEWHERE: Final = "Name the daemon's address with STEPD_URL or --url."


class Said(NamedTuple):
    """One answer: status, body where it is a JSON object, the daemon's clock against ours in seconds (None: unsaid)."""

    status: int
    body: dict[str, Any]
    ahead_seconds: float | None


def examine_running(url: str | None, key: str | None, holder: Holding, service: ServiceRow | None) -> list[Finding]:
    """The checks of the daemon at `url`, else at STEPD_URL. `holder` and `service`: what the database says."""
    try:
        endpoint = Endpoint(url, key)
    except ValueError as fault:
        return [wrong("daemon", str(fault), ELSEWHERE)]
    try:
        ready, view = _ask(endpoint, "/readyz"), _ask(endpoint, "/v1/service")
    except (OSError, http.client.HTTPException) as fault:
        return [_unreachable(endpoint, holder, fault)]
    if "parts" not in ready.body and "code" not in ready.body:
        return [warning("daemon", f"what answers at {endpoint.url} is no stepd daemon", ELSEWHERE)]
    findings = [_known(endpoint, view, service), _ready(ready)]
    if view.ahead_seconds is not None:
        findings.append(_clock(view.ahead_seconds))
    return findings


def _ask(endpoint: Endpoint, path: str) -> Said:
    """Raises OSError, HTTPException."""
    parts = urlsplit(endpoint.url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=ANSWER_SECONDS, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    )
    try:
        connection.request("GET", parts.path + path, headers=endpoint.headers())
        answer = connection.getresponse()
        return Said(answer.status, _object(answer.read(ANSWER_BYTES_MAX)), _ahead(answer.headers.get("Date")))
    finally:
        connection.close()


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ahead(date: str | None) -> float | None:
    """How far the daemon's clock is ahead; its date has whole seconds, cut."""
    try:
        theirs = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return None
    ours = time()
    return theirs - ours if theirs > ours else min(theirs + 1 - ours, 0)


def _unreachable(endpoint: Endpoint, holder: Holding, fault: Exception) -> Finding:
    if isinstance(fault, ssl.SSLError):
        return warning("daemon", f"no TLS with {endpoint.url}: {fault}", "Look at the certificate and its authority.")
    if holder.is_held:
        return warning("daemon", f"nothing answers at {endpoint.url}, though {holder.name} has the database", ELSEWHERE)
    return ok("daemon", f"none runs: nothing answers at {endpoint.url}")


def _known(endpoint: Endpoint, view: Said, service: ServiceRow | None) -> Finding:
    if view.status in (401, 403):
        return warning(
            "daemon", f"the daemon at {endpoint.url} takes no such key", "Give a valid key with STEPD_KEY or --key."
        )
    if view.status != 200:
        told = view.body.get("detail") or view.status
        return wrong("daemon", f"the daemon at {endpoint.url} can't say what it is: {told}", "Look at its log.")
    theirs, ours = view.body.get("version"), version("stepd")
    if service is not None and view.body.get("id") != service.id:
        return warning("daemon", f"the daemon at {endpoint.url} is not that of this database", ELSEWHERE)
    if theirs != ours:
        return warning(
            "daemon", f"the daemon at {endpoint.url} is stepd {theirs}, this program {ours}", "Use one version of both."
        )
    return ok("daemon", f"stepd {theirs} at {endpoint.url}, service {view.body.get('name')}")


def _ready(ready: Said) -> Finding:
    parts = ready.body.get("parts")
    if ready.status != 200 or not isinstance(parts, dict):
        told = ready.body.get("detail") or f"status {ready.status}"
        return wrong("ready", f"the daemon takes no new work: {told}", "Look at its log.")
    on = ", ".join(name.replace("_", "-") for name, is_on in parts.items() if is_on is True)
    return ok("ready", f"it takes new work; its parts are {on or 'all off'}")


def _clock(ahead: float) -> Finding:
    if abs(ahead) > CLOCKS_APART_SECONDS:
        way = "ahead of" if ahead > 0 else "behind"
        return warning(
            "clock",
            f"the daemon's clock is {abs(ahead):.0f} s {way} this machine's",
            "Have both set by a time server; start times and time-outs go by the daemon's.",
        )
    return ok("clock", "the daemon's clock goes as this machine's")
