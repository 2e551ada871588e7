"""The four distributions and the pinned versions: alike, exact, complete and free of addresses."""

import re
import tomllib
from functools import cache
from typing import Any

import pytest

from tests.style.sources import PACKAGES, ROOT, report

PINNED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+$")
DISTRIBUTIONS = {"stepd-protocol", "stepd-migrations", "stepd-worker", "stepd"}


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    faults = [line for line in _lines("constraints.txt") if not PINNED.match(line)]
    assert not faults, report(faults, "constraints.txt holds `name==version` only (no URL, path, marker or option):")
    assert len(_lines("constraints.txt")) > 20


def test_the_list_of_tools_has_names_only() -> None:
    faults = [
        line for line in _lines("requirements-dev.txt") if not re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?", line)
    ]
    assert not faults, report(faults, "requirements-dev.txt names the tools; their versions are in constraints.txt:")


def test_everything_that_set_up_installs_by_name_is_pinned() -> None:
    pinned = {_normal(line.split("==")[0]) for line in _lines("constraints.txt")}
    wanted = {_normal(requirement) for name in PACKAGES for requirement in _project(name)["dependencies"]}
    wanted |= {_normal(line) for line in _lines("requirements-dev.txt")}
    missing = sorted(wanted - pinned - DISTRIBUTIONS)
    assert not missing, report(missing, "Not in constraints.txt; run `make constraints`:")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_distribution_is_typed_and_says_what_it_is(package: str) -> None:
    project = _project(package)
    assert project["name"] in DISTRIBUTIONS
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "Apache-2.0"
    assert project["description"].endswith(".")
    assert (PACKAGES[package] / "py.typed").is_file()
    assert (PACKAGES[package].parent / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_distributions_have_one_version_and_ask_for_it() -> None:
    versions = {_project(name)["version"] for name in PACKAGES}
    assert len(versions) == 1
    siblings = [
        requirement
        for name in PACKAGES
        for requirement in _project(name)["dependencies"]
        if _normal(requirement) in DISTRIBUTIONS
    ]
    assert siblings
    assert all(requirement.endswith(f"=={next(iter(versions))}") for requirement in siblings), siblings


def test_a_worker_pulls_in_neither_the_daemon_nor_the_migrations() -> None:
    wanted = {_normal(requirement) for requirement in _project("stepd_worker")["dependencies"]}
    assert wanted == {"stepd-protocol", "aiohttp", "msgspec", "opentelemetry-api"}


@cache
def _project(package: str) -> dict[str, Any]:
    text = (PACKAGES[package].parent / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def _lines(name: str) -> list[str]:
    """The file's lines without comments and blank ones."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _normal(requirement: str) -> str:
    """The requirement's name as registries compare it: lower case, one dash for every run of separators."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, f"{requirement!r} is no requirement"
    return re.sub(r"[-_.]+", "-", match.group()).lower()
