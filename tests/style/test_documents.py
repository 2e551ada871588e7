"""What the pages say is there: their links lead somewhere, and the make targets they name exist."""

import re
from pathlib import Path

from tests.style.sources import ROOT, project_files, report

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?:^|`)make ((?:[a-z]+ ?)+)", re.MULTILINE)
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_links_between_pages_lead_somewhere() -> None:
    faults = [
        f"{page}: {link}"
        for page in _pages()
        for link in LINK.findall(FENCE.sub("", _read(page)))
        if not (ROOT / page.parent / link).exists()
    ]
    assert not faults, report(faults, "These links lead to no file:")


def test_make_targets_named_in_pages_exist() -> None:
    targets = set(TARGET.findall(_read(Path("Makefile"))))
    faults = [
        f"{page}: make {name}"
        for page in _pages()
        for names in COMMAND.findall(_read(page))
        for name in names.split()
        if name not in targets
    ]
    assert not faults, report(faults, "The Makefile has no such target:")


def test_help_lists_every_target() -> None:
    makefile = _read(Path("Makefile"))
    documented = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    assert documented == set(TARGET.findall(makefile))
    assert documented >= {"help", "setup", "demo", "serve", "test", "check", "bench", "openapi", "docs", "clean"}


def _pages() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


def _read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
