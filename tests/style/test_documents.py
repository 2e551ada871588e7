"""What the pages say is there: their links lead somewhere, and the make targets they name exist."""

import re
from pathlib import Path

from stepd.engine import transitions
from tests.style.sources import ROOT, project_files, report
from tools import generated

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


def test_generated_parts_are_what_the_code_says() -> None:
    stale = [str(page.relative_to(ROOT)) for page in generated.pages() if generated.rewrite(_read(page)) != _read(page)]
    assert not stale, report(stale, "These pages are stale; run `make docs`:")


def test_every_generated_part_stands_on_a_page() -> None:
    standing = {found["name"] for page in generated.pages() for found in generated.PART.finditer(_read(page))}
    missing = sorted(generated.WRITERS.keys() - standing)
    assert not missing, report(missing, "No page has these parts; a new tag of the API needs a page in docs/api:")


def test_a_marked_part_is_written_anew_and_the_rest_is_left() -> None:
    page = "before\n<!-- generated: attempt-states -->\nold\n<!-- end of generated -->\nafter\n"
    written = generated.rewrite(page)
    assert written.startswith("before\n<!-- generated: attempt-states -->\n```mermaid\nstateDiagram-v2\n")
    assert written.endswith("```\n<!-- end of generated -->\nafter\n")
    assert all(f"--> {line.after}: {line.what}" in written for line in transitions.TRANSITIONS)
    assert generated.rewrite(written) == written


def _pages() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".md"]


def _read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
