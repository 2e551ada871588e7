"""What `deploy/` has: every setting with its default, and files that name nothing that isn't there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepd import keys
from stepd.settings import SETTINGS, Settings, load_settings
from tests.support.daemon import STEPD
from tests.support.postgres import Cluster, query
from tools import env_example

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ENTRY = re.compile(r"^#?(STEPD_[A-Z_]+)=(.*)$", re.MULTILINE)
VARIABLE = re.compile(r"\bSTEPD_[A-Z_]+\b")
KNOWN = {setting.variable for setting in SETTINGS} | set(keys.VARIABLES)
OF_COMPOSE = {"STEPD_PASSWORD"}


def test_the_example_names_every_setting_with_its_default() -> None:
    text = (DEPLOY / ".env.example").read_text("utf-8")
    assert text == env_example.text(), "run make docs"
    entries = dict(ENTRY.findall(text))
    assert entries.keys() == KNOWN
    assert load_settings({}, entries) == Settings()
    assert load_settings({}, {name: value for name, value in entries.items() if value}) == Settings()


def test_an_example_as_it_is_changes_nothing() -> None:
    text = (DEPLOY / ".env.example").read_text("utf-8")
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == []


@pytest.mark.parametrize("name", ["stepd.service", "Containerfile", "compose.yaml", "postgres-roles.sh"])
def test_files_name_variables_that_there_are(name: str) -> None:
    named = set(VARIABLE.findall((DEPLOY / name).read_text("utf-8")))
    assert named <= KNOWN | OF_COMPOSE, named


def test_compose_names_files_that_there_are() -> None:
    services = _compose()["services"]
    mounts = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())]
    assert all((DEPLOY / mount).exists() for mount in mounts if mount.startswith("."))
    build = services["daemon"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_a_container_is_built_of_what_there_is() -> None:
    copied = re.findall(r"^COPY (\S+) \S+$", (DEPLOY / "Containerfile").read_text("utf-8"), re.MULTILINE)
    assert {"protocol", "migrations", "worker_sdk", "daemon"} <= set(copied)
    assert all((ROOT / source).exists() for source in copied)


def test_stops_are_given_longer_than_a_daemon_takes() -> None:
    unit = (DEPLOY / "stepd.service").read_text("utf-8")
    seconds = [int(found) for found in re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)]
    seconds.append(int(_compose()["services"]["daemon"]["stop_grace_period"].removesuffix("s")))
    assert all(given > Settings().drain_seconds for given in seconds)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here that could read the unit")
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "stepd.service").read_text("utf-8")
    unit = unit.replace("/opt/stepd/bin/stepd", str(STEPD)).replace("User=stepd\nGroup=stepd\n", "")
    (tmp_path / "stepd.service").write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "stepd.service"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [line for line in done.stderr.splitlines() if "stepd.service" in line] == []


def test_the_script_makes_an_owner_who_migrates_and_a_role_that_serves() -> None:
    server = Cluster()
    try:
        home = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": "postgres"}
        password = server.url().split(":")[2].split("@")[0]
        secrets = {"PGPASSWORD": password, "OWNER_PASSWORD": "it's", "STEPD_PASSWORD": "a b"}
        path = f"{server.programs}{os.pathsep}{os.environ['PATH']}"
        subprocess.run([DEPLOY / "postgres-roles.sh"], env=home | secrets | {"PATH": path}, check=True, timeout=60)
        owner = server.url("stepd", "stepd_owner", "it's")
        done = subprocess.run(
            [STEPD, "migrate", "--database", owner, "--runtime-role", "stepd"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert query(server.url("stepd", "stepd", "a b".replace(" ", "%20")), "select count(*) from executions") == [
            (0,)
        ]
    finally:
        server.close()


def _compose() -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return told
