"""A worker that catalogues a directory: it lists the files, fingerprints and measures them side by side, writes the
catalogue, publishes what changed once a person has said yes, and reports.

From the project's root: `python -m examples.catalogue.worker`, and
`stepd start catalogue --input '{"folder": "/tmp/catalogue"}'`; then, with the id that it prints,
`stepd signal ID approval --payload '{"by": "you", "publish": true}'` and `stepd watch ID`. `directory` in the input
names another one than the standard library of the worker's Python; `stumble` has one body fail once, on purpose.
"""

import logging
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from examples.catalogue.book import FILE_NAME, Book, publish_changes, read_book, write_book
from examples.catalogue.files import Entry, fingerprint, measure, walk
from examples.catalogue.report import report_lines
from examples.catalogue.sheets import Sheet, read_sheet, write_sheet
from stepd_worker import Context, NotApplied, Retry, Retryable, Rule, StepFailed, Worker, Workflow, cel

STANDARD_LIBRARY: Final = sysconfig.get_path("stdlib")
PARTS_MAX: Final = 16
"""Into so many parts a directory is cut; a small one has a file in each."""
PARTS_AT_ONCE: Final = 4


class Order(msgspec.Struct):
    """What an execution is asked for; its JSON Schema is part of the definition."""

    folder: str
    """Where the catalogue and the sheets go."""
    directory: str = ""
    """What to catalogue; left out, the standard library of the worker's Python."""
    stumble: bool = False
    """One body fails once, on purpose, so that a retry is seen."""


class Part(msgspec.Struct):
    """What one item of `fingerprint_files` is asked for."""

    order: Order
    sheet: Sheet


class Approval(msgspec.Struct):
    """What a person says to a publication."""

    by: str
    publish: bool


catalogue = Workflow(
    "catalogue",
    description="A directory's files, their fingerprints and sizes",
    # A catalogue that was written may stand, whatever comes after it: nobody needs to be asked.
    on_failure="fail",
    output=cel("steps.report.output"),
)

# The first three steps leave nothing outside but sheets, which only this execution looks at: they may fail and be done
# again at will, so they count as reading. The catalogue is a write that may be done twice; the publication is one that
# may not.


@catalogue.step(effect="read_only")
def list_files(ctx: Context, order: Order) -> dict[str, Any]:
    """Lists the files of the directory."""
    directory = _directory(order)
    if not directory.is_dir():
        raise StepFailed("no_such_directory", f"{directory} is no directory that this worker can see")
    entries = list(walk(directory))
    size = max(1, -(-len(entries) // PARTS_MAX))
    parts = (entries[first : first + size] for first in range(0, len(entries), size))
    folder = _work_folder(ctx, order) / "list"
    sheets = [write_sheet(folder / str(place), map(list, part)) for place, part in enumerate(parts)]
    return {"files": len(entries), "parts": sheets}


@catalogue.step(
    effect="read_only",
    needs="list_files",
    foreach="steps.list_files.output.parts",
    max_parallel=PARTS_AT_ONCE,
    input={"order": cel("input"), "sheet": cel("item")},
    retry=Retry(max_attempts=3, initial_seconds=1),
)
def fingerprint_files(ctx: Context, part: Part) -> Sheet:
    """Hashes the files of one part. The first part fails on purpose where that is asked for, in its first attempt."""
    if part.order.stumble and (ctx.index, ctx.attempt) == (0, 1):
        raise Retryable("on purpose: the next attempt does it")
    rows = ([entry.name, entry.bytes, _fingerprint(ctx, part.order, entry)] for entry in _listed(ctx, [part.sheet]))
    return write_sheet(_work_folder(ctx, part.order) / "fingerprints" / str(ctx.index), rows)


@catalogue.step(effect="read_only", needs="list_files")
def measure_files(ctx: Context, order: Order, steps: Any) -> Sheet:
    """Counts lines and definitions, beside the fingerprints."""
    listed = _listed(ctx, steps["list_files"].output["parts"])
    rows = ([entry.name, *measure(_directory(order) / entry.name)] for entry in listed)
    return write_sheet(_work_folder(ctx, order) / "measures", rows)


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


catalogue.decision(
    "news",
    rules=[
        Rule(id="first-run", when="steps.write_catalogue.output.since == null", then="publish"),
        Rule(
            id="changes",
            when="['added', 'removed', 'changed'].exists(how, steps.write_catalogue.output[how] > 0)",
            then="publish",
        ),
    ],
    default="keep",
)

catalogue.wait(
    "approved",
    event="approval",
    payload_schema=Approval,
    when="steps.news.output == 'publish'",
    timeout_seconds=86_400,
    on_timeout="skip",
)


@catalogue.step(
    effect="non_idempotent_write",
    needs=["news", "approved"],
    when="steps.approved.output != null && steps.approved.output.publish",
    begins_effect=True,
)
def publish(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Adds a line to the list of publications, which nobody could take back.

    Where it is lost in the middle, nobody knows whether the line was added: it is not added again on a guess, and an
    operator decides.
    """
    book = _own_book(ctx, order)
    ctx.begin_effect()
    return {"published": publish_changes(Path(order.folder), book, steps["approved"].output["by"])}


@catalogue.step(effect="read_only", needs=["write_catalogue", "publish"])
def report(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Puts the catalogue into a few lines, and clears the sheets away."""
    book = _own_book(ctx, order)
    shutil.rmtree(_work_folder(ctx, order), ignore_errors=True)
    published = (steps["publish"].output or {"published": None})["published"]
    return {"report": report_lines(book, published), "published": published, **steps["write_catalogue"].output}


def _own_book(ctx: Context, order: Order) -> Book:
    """The catalogue that this execution wrote. Raises StepFailed where another one has written since."""
    book = read_book(Path(order.folder))
    if book is None or book["execution"] != ctx.execution.id:
        raise StepFailed("overtaken", f"Another execution has written to {order.folder} since")
    return book


def _fingerprint(ctx: Context, order: Order, entry: Entry) -> str | None:
    return fingerprint(_directory(order) / entry.name, ctx.raise_if_cancelled)


def _listed(ctx: Context, sheets: list[Sheet]) -> Iterator[Entry]:
    """The files of some parts, with a look at whether to stop and a word on how far it is before each."""
    files = sum(sheet["rows"] for sheet in sheets)
    for done, (name, size) in enumerate(row for sheet in sheets for row in read_sheet(sheet)):
        ctx.raise_if_cancelled()
        ctx.progress({"done": done, "of": files})
        yield Entry(name, size)


def _joined(steps: Any) -> dict[str, Any]:
    """The rows of all sheets, by file."""
    measures = {name: counts for name, *counts in read_sheet(steps["measure_files"].output)}
    files = {}
    for sheet in steps["fingerprint_files"].output:
        for name, size, digest in read_sheet(sheet):
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
