"""The catalogue: what it finds in a directory, that it writes once, and that it says what changed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from examples.catalogue.book import FILE_NAME, PUBLISHED_NAME, read_book, write_book
from examples.catalogue.files import Measures, fingerprint, measure, walk
from examples.catalogue.report import report_lines
from examples.catalogue.sheets import SheetChanged, read_sheet, write_sheet
from stepd_worker import Client
from tests.cli.program import Program
from tests.examples.conftest import StartWorker
from tests.support.wait import eventually

MODULE = b"import os\n\nclass A:\n    async def go(self): ...\n\ndef f(): ..."


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small directory with what a real one has: folders, links, what tools leave, names that are no text."""
    found = tmp_path / "found"
    (found / "package" / "__pycache__").mkdir(parents=True)
    (found / "package" / "module.py").write_bytes(MODULE)
    (found / "package" / "__pycache__" / "module.pyc").write_bytes(b"\0")
    (found / "empty.txt").write_bytes(b"")
    (found / "image.png").write_bytes(b"\x89PNG\n\0\n\n")
    (found / "link.py").symlink_to("package/module.py")
    Path(os.fsdecode(bytes(found) + b"/caf\xe9 \x1b[31m.txt")).write_bytes(b"one\ntwo\n")
    return found


def test_walking_finds_the_regular_files_in_order(directory: Path) -> None:
    names = [entry.name for entry in walk(directory)]
    assert names == [os.fsdecode(b"caf\xe9 \x1b[31m.txt"), "empty.txt", "image.png", "package/module.py"]


def test_files_are_measured_by_what_they_are(directory: Path) -> None:
    assert measure(directory / "package" / "module.py") == Measures(lines=6, definitions=3)
    assert measure(directory / "empty.txt") == Measures(0, 0)
    assert measure(directory / "image.png") == Measures(0, 0)
    assert measure(directory / "gone") == Measures(0, 0)


def test_a_fingerprint_is_the_sha256_or_none(directory: Path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert fingerprint(directory / "empty.txt", lambda: None) == empty
    assert fingerprint(directory / "gone", lambda: None) is None


def test_a_sheet_that_was_changed_is_refused(tmp_path: Path) -> None:
    sheet = write_sheet(tmp_path / "sheet", [["a", 1], ["\udce9", 2]])
    assert read_sheet(sheet) == [["a", 1], ["\udce9", 2]]
    (tmp_path / "sheet").write_bytes(b'["a", 2]\n')
    with pytest.raises(SheetChanged, match="changed"):
        read_sheet(sheet)


def test_writing_twice_for_one_execution_changes_nothing(tmp_path: Path) -> None:
    write_book(tmp_path, "e-1", "/d", {"a": _file("1")})
    second = write_book(tmp_path, "e-2", "/d", {"a": _file("2"), "b": _file("1")})
    assert second["changes"] == {"since": "e-1", "added": ["b"], "removed": [], "changed": ["a"]}
    assert write_book(tmp_path, "e-2", "/d", {"a": _file("2"), "b": _file("1")}) == second
    assert read_book(tmp_path) == second
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_another_directory_is_not_compared_with_the_last_one(tmp_path: Path) -> None:
    write_book(tmp_path, "e-1", "/d", {"a": _file("1")})
    book = write_book(tmp_path, "e-2", "/other", {"b": _file("1")})
    assert book["changes"] == {"since": None, "added": ["b"], "removed": [], "changed": []}
    assert "first run" in report_lines(book)[-1]


def test_it_catalogues_a_directory_and_then_says_what_changed(
    stepd: Program, start_worker: StartWorker, directory: Path, tmp_path: Path
) -> None:
    start_worker("python", "-m", "examples.catalogue.worker")
    eventually(lambda: "catalogue" in stepd("workflows").out, seconds=30, every=0.2, what="catalogue is registered")
    first = run(stepd, directory, tmp_path / "out", stumble=True)
    assert (first["output"]["files"], first["output"]["since"]) == (4, None)
    assert first["output"]["report"][0] == f"Catalogue of {directory}"
    with Client(stepd.url) as client:
        attempts = [event["attempt"] for event in client.events(first["id"]) if event["type"] == "attempt.leased"]
    assert attempts.count(2) == 1, "the part that stumbles"
    published = (tmp_path / "out" / PUBLISHED_NAME).read_text().splitlines()
    assert published == [f"{first['id']}: 4 added, 0 removed, 0 changed; approved by 'ann'"]
    assert first["output"]["published"] == published[0]

    (directory / "empty.txt").write_bytes(b"no longer\n")
    (directory / "image.png").unlink()
    (directory / "new.txt").write_bytes(b"")
    second = run(stepd, directory, tmp_path / "out", publish=False)
    assert second["output"]["published"] is None
    assert (tmp_path / "out" / PUBLISHED_NAME).read_text().splitlines() == published
    counts = {how: second["output"][how] for how in ("added", "removed", "changed")}
    assert counts == {"added": 1, "removed": 1, "changed": 1}
    assert second["output"]["since"] == first["id"]
    book = json.loads((tmp_path / "out" / FILE_NAME).read_bytes())
    assert book["execution"] == second["id"]
    assert book["changes"]["changed"] == ["empty.txt"]
    assert list((tmp_path / "out" / "work").iterdir()) == [], "the sheets are cleared away"
    third = run(stepd, directory, tmp_path / "out", publish=None)
    assert third["output"]["since"] == second["id"]
    skipped = {step["id"] for step in third["steps"] if step["status"] == "skipped"}
    assert skipped == {"approved", "publish"}, "nothing is new, so that nobody is asked"


def test_a_directory_that_is_not_there_fails_with_a_class_of_its_own(
    stepd: Program, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker("python", "-m", "examples.catalogue.worker")
    eventually(lambda: "catalogue" in stepd("workflows").out, seconds=30, every=0.2, what="catalogue is registered")
    order = json.dumps({"folder": str(tmp_path), "directory": str(tmp_path / "gone")})
    assert "no_such_directory" in stepd("start", "catalogue", "--input", order, "--wait").expect(1).out


def run(stepd: Program, directory: Path, folder: Path, *, publish: bool | None = True, **more: Any) -> dict[str, Any]:
    """The view of an execution that went well; `publish` is what a person says to it, None for nothing."""
    order = {"folder": str(folder), "directory": str(directory)} | more
    with Client(stepd.url) as client:
        execution = client.start("catalogue", order)["id"]
        if publish is not None:
            client.signal(execution, "approval", {"by": "ann", "publish": publish})
        view = client.wait(execution, timeout_seconds=30)
    assert view["status"] == "completed", view["error"]
    return view


def _file(digest: str) -> dict[str, Any]:
    return {"sha256": digest, "bytes": 1, "lines": 1, "definitions": 0}
