"""Owns the sheets: long lists that one step hands to the next by a file and its hash, since an output must be small.

An output goes through the daemon and may have 256 KiB; a directory may have a million files. So the rows are in a file
of the work folder, which all workers of this workflow must see; the output says where, how many, and with which hash.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = list[Any]
Sheet: TypeAlias = dict[str, Any]
"""`{"path", "rows", "sha256"}`: what a step puts into its output."""


class SheetChanged(Exception):
    """A sheet isn't what the step that wrote it has told."""


def write_sheet(path: Path, rows: Iterable[Row]) -> Sheet:
    """Writes rows, and tells where they are. Written again, by another attempt, it is the same sheet."""
    # ASCII, in which also a file name that is no UTF-8 has a form.
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    content = b"".join(lines)
    replace_file(path, content)
    return {"path": str(path), "rows": len(lines), "sha256": hashlib.sha256(content).hexdigest()}


def read_sheet(sheet: Sheet) -> list[Row]:
    """The rows of a sheet. Raises SheetChanged where the file isn't what was written, and OSError."""
    content = Path(sheet["path"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != sheet["sha256"]:
        raise SheetChanged(f"{sheet['path']} was changed since it was written")
    return [json.loads(line) for line in content.splitlines()]


def replace_file(path: Path, content: bytes) -> None:
    """Puts a file in the place of the older one, so that nobody ever sees a half of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
