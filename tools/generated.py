"""The parts of Markdown pages that are written from the code: without an argument writes them, `--check` compares.

A page marks such a part, and whatever stands between the two marks is replaced:

    <!-- generated: attempt-states -->
    <!-- end of generated -->
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from stepd.engine import transitions

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def attempt_states() -> str:
    """The state diagram of an attempt, from the table that the engine itself uses."""
    return f"```mermaid\n{transitions.mermaid()}```\n"


WRITERS: dict[str, Callable[[], str]] = {"attempt-states": attempt_states}


def rewrite(text: str) -> str:
    """The page with every marked part written anew. Raises KeyError for a name without a writer."""
    return PART.sub(lambda part: part[1] + WRITERS[part["name"]]() + part[3], text)


def pages() -> list[Path]:
    """The pages that may have marked parts."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name those that are stale. Returns the exit code."""
    stale = {page: new for page in pages() if (new := rewrite(old := page.read_text("utf-8"))) != old}
    for page, text in stale.items():
        if "--check" in arguments:
            sys.stderr.write(f"{page.relative_to(ROOT)} is not what the code says; run: make docs\n")
        else:
            page.write_text(text, "utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
