"""What is written from the code, parts of pages and whole files: without an argument writes it, `--check` compares.

A page marks such a part, and whatever stands between the two marks is replaced:

    <!-- generated: attempt-states -->
    <!-- end of generated -->
"""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from stepd import keys
from stepd.cli import exits
from stepd.engine import transitions
from stepd.settings import SETTINGS, Setting
from stepd.telemetry.metrics import Metrics
from tools import api_pages, dashboard, env_example

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def attempt_states() -> str:
    """The state diagram of an attempt, from the table that the engine itself uses."""
    return f"```mermaid\n{transitions.mermaid()}```\n"


def settings() -> str:
    """The settings of `stepd serve`, without its limits."""
    return _table(setting for setting in SETTINGS if not _is_limit(setting))


def limits() -> str:
    """The settings that bound what callers may send."""
    return _table(setting for setting in SETTINGS if _is_limit(setting))


def key_variables() -> str:
    """The variables that keys come from."""
    rows = (f"| `{variable}` | `{scope}` |" for variable, scope in keys.VARIABLES.items())
    return "\n".join(["| variable | scope |", "|---|---|", *rows]) + "\n"


def exit_codes() -> str:
    """How the commands of the program end."""
    lines = (line.strip() for line in exits.ENDING_EXIT_CODES.splitlines())
    rows = (f"| {line.replace('  ', ' | ', 1)} |" for line in lines if line[:1].isdigit())
    return "\n".join(["| code | means |", "|---|---|", *(re.sub(" {2,}", " ", row) for row in rows)]) + "\n"


def metrics() -> str:
    """The figures that a daemon declares."""
    rows = (
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.about} |"
        for one in Metrics().declared
    )
    return "\n".join(["| figure | kind | labels | says |", "|---|---|---|---|", *rows]) + "\n"


WRITERS: dict[str, Callable[[], str]] = {
    "attempt-states": attempt_states,
    "settings": settings,
    "limits": limits,
    "key-variables": key_variables,
    "exit-codes": exit_codes,
    "metrics": metrics,
    **api_pages.writers(),
}


FILES: dict[Path, Callable[[], str]] = {
    ROOT / "deploy" / ".env.example": env_example.text,
    ROOT / "deploy" / "grafana" / "stepd.json": dashboard.text,
}
"""Files that are written as a whole."""


def _table(settings: Iterable[Setting]) -> str:
    head = ["| flag | variable | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(_cells(setting))} |" for setting in settings)]) + "\n"


def _cells(setting: Setting) -> tuple[str, str, str, str]:
    flag = f"`{setting.flag}`"
    if setting.is_switch:
        flag += f", `--no-{setting.flag.removeprefix('--')}`"
    return flag, f"`{setting.variable}`", _default(setting), setting.help


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "none"
    if setting.is_switch:
        return "on" if setting.default else "off"
    if isinstance(setting.default, str):
        return f"`{setting.default}`"
    return f"{setting.default:,}" + (f" {setting.unit}" if setting.unit else "")


def _is_limit(setting: Setting) -> bool:
    return setting.name.startswith("max_")


def rewrite(text: str) -> str:
    """The page with every marked part written anew. Raises KeyError for a name without a writer."""
    return PART.sub(lambda part: part[1] + WRITERS[part["name"]]() + part[3], text)


def pages() -> list[Path]:
    """The pages that may have marked parts."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def main(arguments: list[str]) -> int:
    """Write all of it, or with `--check` name what is stale. Returns the exit code."""
    written = {page: rewrite(page.read_text("utf-8")) for page in pages()}
    written |= {file: write() for file, write in FILES.items()}
    stale = {file: new for file, new in written.items() if not file.exists() or file.read_text("utf-8") != new}
    for page, text in stale.items():
        if "--check" in arguments:
            sys.stderr.write(f"{page.relative_to(ROOT)} is not what the code says; run: make docs\n")
        else:
            page.write_text(text, "utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
