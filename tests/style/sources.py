"""The project's own Python files, read and parsed once for all style tests."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "stepd_protocol": ROOT / "protocol" / "stepd_protocol",
    "stepd_migrations": ROOT / "migrations" / "stepd_migrations",
    "stepd_worker": ROOT / "worker_sdk" / "stepd_worker",
    "stepd": ROOT / "daemon" / "stepd",
}

LEFTOVERS = {"__pycache__", "build", "dist"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file: where it is (relative to the root), its text, its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    def at(self, node: ast.AST) -> str:
        """`path:line`, as editors and terminals turn it into a link."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"

    def functions(self) -> Iterator[FunctionNode]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, FunctionNode))

    def is_under(self, *folders: str) -> bool:
        """True if the file is in one of the folders, given relative to the root."""
        return any(self.path.is_relative_to(folder) for folder in folders)


@cache
def project_files() -> tuple[Path, ...]:
    """Paths, relative to the root, of the files that are in git or would be added to it."""
    names = _listed_by_git() if (ROOT / ".git").exists() else _found_in_folders()
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


@cache
def sources() -> tuple[Source, ...]:
    """Every Python file of the project."""
    paths = [path for path in project_files() if path.suffix == ".py"]
    return tuple(_parse(path) for path in paths)


def package_sources() -> tuple[Source, ...]:
    """The Python files of the four distributions, without tests, examples and the benchmark."""
    folders = [str(folder.relative_to(ROOT)) for folder in PACKAGES.values()]
    return tuple(source for source in sources() if source.is_under(*folders))


def sources_of_tests() -> tuple[Source, ...]:
    """The Python files under tests/."""
    return tuple(source for source in sources() if source.is_under("tests"))


def report(faults: list[str], advice: str) -> str:
    """The message of a failed style test: what to do, then every place, so that one run is enough."""
    return advice + "\n  " + "\n  ".join(faults)


def _listed_by_git() -> set[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    return {Path(name) for name in listing.split("\0") if name}


def _found_in_folders() -> set[Path]:
    """For an unpacked archive, which has no git: all but hidden folders and what Python or a build leaves behind."""
    names = {path.relative_to(ROOT) for path in ROOT.rglob("*")}
    return {name for name in names if not any(part[0] == "." or part in LEFTOVERS for part in name.parts)}


def _parse(path: Path) -> Source:
    text = (ROOT / path).read_text(encoding="utf-8")
    return Source(path, text, ast.parse(text, filename=str(path)))
