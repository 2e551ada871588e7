"""Runs schemathesis, made from the daemon's own OpenAPI document, against a daemon; tells what it found."""

import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.faults.figures import Figures, figures
from tests.support.client import Http, Json
from tests.support.daemon import Daemon, clean_environment
from tests.support.flow import register

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
LENIENT = {"progress", "usage", "spans", "next", "details", "retry_after", "message"}
"""What is dropped or cleaned where it can't be read."""
PROGRAM = Path(sys.executable).with_name("schemathesis")


@dataclass(frozen=True, slots=True)
class Found:
    """One whole run: what the fuzzer said, and what the daemon counted meanwhile."""

    status: int
    said: str
    counted: Figures
    log: str

    @property
    def requests(self) -> int:
        return sum(self.by_status.values())

    @property
    def by_status(self) -> dict[str, int]:
        """How many answers had which status."""
        counts: dict[str, int] = {}
        for line in self.counted.lines("stepd_http_requests_total"):
            counts[line.labels["status"]] = counts.get(line.labels["status"], 0) + int(line.value)
        return dict(sorted(counts.items()))

    def faults(self) -> list[str]:
        """What must not be; none where all is well."""
        faults = []
        if self.status != 0:
            faults.append(f"the fuzzer found something, and ended with {self.status}")
        if "500" in self.by_status:
            faults.append(f"{self.by_status['500']} answers were 500")
        if "Traceback" in self.log:
            faults.append("the daemon's log has a traceback")
        return faults


def fuzz(
    folder: Path,
    *,
    examples: int,
    seed: int,
    phases: str = "examples,coverage,fuzzing,stateful",
    change: Callable[[Json], None] = lambda _: None,
) -> Found:
    """Fuzzes a daemon of its own on a new file in `folder`; `examples` is per operation and phase.

    `change` may falsify the document, to see that it would be noticed.
    """
    secret = secrets.token_urlsafe(32)
    daemon = Daemon(folder / "stepd.db", env={"STEPD_ADMIN_KEYS": f"fuzzer={secret}"})
    try:
        http = Http(daemon.start().url, secret)
        document = folder / "openapi.yaml"
        content = closed(yaml.safe_load(http.get("/openapi.yaml").body))
        _loosen(content)
        change(content)
        document.write_text(yaml.safe_dump(content))
        _prepare(http)
        command = [
            str(PROGRAM),
            "run",
            str(document),
            "--url",
            daemon.url,
            "--header",
            f"Authorization:Bearer {secret}",
            "--checks",
            ",".join(CHECKS),
            "--phases",
            phases,
            "--max-examples",
            str(examples),
            "--seed",
            str(seed),
            "--continue-on-failure",
            "--request-timeout",
            "20",
            "--suppress-health-check",
            "all",
            "--no-color",
            "--generation-database",
            "none",
            "--warnings",
            "off",
        ]  # fmt: skip — a command reads best as it would be typed
        key_id = http.get("/v1/admin/keys").expect(200)["items"][0]["id"]
        environment = {"SCHEMATHESIS_HOOKS": "tests.faults.fuzz.hooks", "STEPD_FUZZ_KEY_ID": key_id}
        run = subprocess.run(
            command,
            cwd=folder,
            env=clean_environment() | environment | {"PYTHONPATH": str(Path(__file__).parents[3]), "COLUMNS": "160"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Found(run.returncode, run.stdout + run.stderr, figures(http), daemon.output())
    finally:
        daemon.close()


def closed(document: Json) -> Json:
    """The document with every object closed: then a field that it doesn't name is a fault of the answer."""
    match document:
        case dict():
            grown = {name: closed(value) for name, value in document.items()}
            if grown.get("type") == "object" and "properties" in grown:
                grown.setdefault("additionalProperties", False)
            return grown
        case list():
            return [closed(value) for value in document]
        case _:
            return document


def _loosen(document: Json) -> None:
    """What is never refused may be anything, beside what it is meant to be."""
    schemas = document["components"]["schemas"]
    for name in ("Heartbeat", "Complete", "Fail"):
        properties = schemas[name]["properties"]
        for field in LENIENT & properties.keys():
            properties[field] = {"anyOf": [properties[field], {}]}
    # OTLP passes over what it doesn't know, so that newer exporters can be used.
    schemas["ExportedTraces"]["additionalProperties"] = True


def _prepare(http: Http) -> None:
    """Something to be found: workflows, executions in several states, a lease."""
    steps: list[dict[str, Any]] = [{"id": "a", "effect": "read_only"}, {"id": "b", "effect": "idempotent_write"}]
    for name in ("fuzzed-1", "fuzzed-2"):
        register(http, name, {"steps": steps}).expect(201)
        for number in range(5):
            http.post("/v1/executions", {"workflow": name, "input": number}).expect(202)
