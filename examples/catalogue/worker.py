"""A worker that catalogues a directory: it lists the files, fingerprints and measures them side by side, writes the
catalogue, and reports what changed since the last run.

From the project's root: `python -m examples.catalogue.worker`, and
`stepd start catalogue --input '{"folder": "/tmp/catalogue"}' --wait`. `directory` in the input names another one than
the standard library of the worker's Python; `stumble` has one body fail once, on purpose.
"""

import logging
import shutil
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from examples.catalogue.book import FILE_NAME, Book, read_book, write_book
from examples.catalogue.files import Entry, fingerprint, measure, walk
from examples.catalogue.report import report_lines
from examples.catalogue.sheets import read_sheet, write_sheet
from stepd_worker import Context, NotApplied, Retry, Retryable, StepFailed, Worker, Workflow, cel

STANDARD_LIBRARY: Final = sysconfig.get_path("stdlib")


class Order(msgspec.Struct):
    """What an execution is asked for; its JSON Schema is part of the definition."""

    folder: str
    """Where the catalogue and the sheets go."""
    directory: str = ""
    """What to catalogue; left out, the standard library of the worker's Python."""
    stumble: bool = False
    """One body fails once, on purpose, so that a retry is seen."""


catalogue = Workflow(
    "catalogue",
    description="A directory's files, their fingerprints and sizes",
    # A catalogue that was written may stand, whatever comes after it: nobody needs to be asked.
    on_failure="fail",
    output=cel("steps.report.output"),
)

# The first three steps leave nothing outside but sheets, which only this execution looks at: they may fail and be done
# again at will, so they count as reading. The fourth is a write, and one that may be done twice.


@catalogue.step(effect="read_only")
def list_files(ctx: Context, order: Order) -> dict[str, Any]:
    """Lists the files of the directory."""
    directory = _directory(order)
    if not directory.is_dir():
        raise StepFailed("no_such_directory", f"{directory} is no directory that this worker can see")
    entries = list(walk(directory))
    return {"sheet": write_sheet(_work_folder(ctx, order) / "list", map(list, entries)), "files": len(entries)}


@catalogue.step(effect="read_only", needs="list_files", retry=Retry(max_attempts=3, initial_seconds=1))
def fingerprint_files(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Hashes every file. It is the one that fails on purpose: halfway through, in its first attempt."""
    rows = _fingerprints(ctx, order, steps)
    if order.stumble and ctx.attempt == 1:
        half = steps["list_files"].output["files"] // 2
        done = sum(1 for _ in islice(rows, half))
        raise Retryable(f"on purpose, after {done} files: the next attempt does it all")
    return {"sheet": write_sheet(_work_folder(ctx, order) / "fingerprints", rows)}


@catalogue.step(effect="read_only", needs="list_files")
def measure_files(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Counts lines and definitions, beside the fingerprints."""
    rows = ([entry.name, *measure(_directory(order) / entry.name)] for entry in _listed(ctx, steps))
    return {"sheet": write_sheet(_work_folder(ctx, order) / "measures", rows)}


@catalogue.step(effect="idempotent_write", needs=["fingerprint_files", "measure_files"])
def write_catalogue(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Writes the catalogue file in the place of the last run's, and tells the counts of what changed."""
    try:
        files = _joined(steps)
    except Exception as fault:
        # Nothing was written yet, and to say so spares an operator the question whether it was.
        raise NotApplied(fault) from fault
    book = write_book(Path(order.folder), ctx.execution.id, str(_directory(order)), files)
    changes = book["changes"]
    counts = {how: len(changes[how]) for how in ("added", "removed", "changed")}
    return {"catalogue": str(Path(order.folder, FILE_NAME)), "since": changes["since"], "files": len(files)} | counts


@catalogue.step(effect="read_only")
def report(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Puts the catalogue into a few lines, and clears the sheets away."""
    book: Book | None = read_book(Path(order.folder))
    if book is None or book["execution"] != ctx.execution.id:
        raise StepFailed("overtaken", f"Another execution has written to {order.folder} since")
    shutil.rmtree(_work_folder(ctx, order), ignore_errors=True)
    return {"report": report_lines(book), **steps["write_catalogue"].output}


def _fingerprints(ctx: Context, order: Order, steps: Any) -> Iterator[list[Any]]:
    for entry in _listed(ctx, steps):
        yield [entry.name, entry.bytes, fingerprint(_directory(order) / entry.name, ctx.raise_if_cancelled)]


def _listed(ctx: Context, steps: Any) -> Iterator[Entry]:
    """The files, with a look at whether to stop and a word on how far it is before each."""
    listed = steps["list_files"].output
    for done, (name, size) in enumerate(read_sheet(listed["sheet"])):
        ctx.raise_if_cancelled()
        ctx.progress({"done": done, "of": listed["files"]})
        yield Entry(name, size)


def _joined(steps: Any) -> dict[str, Any]:
    """The rows of both sheets, by file."""
    measures = {name: counts for name, *counts in read_sheet(steps["measure_files"].output["sheet"])}
    files = {}
    for name, size, digest in read_sheet(steps["fingerprint_files"].output["sheet"]):
        lines, definitions = measures[name]
        files[name] = {"sha256": digest, "bytes": size, "lines": lines, "definitions": definitions}
    return files


def _directory(order: Order) -> Path:
    return Path(order.directory or STANDARD_LIBRARY).absolute()


def _work_folder(ctx: Context, order: Order) -> Path:
    return Path(order.folder, "work", ctx.execution.id)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    Worker().register(catalogue).serve()
