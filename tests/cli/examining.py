"""Owns how tests run `stepd doctor` and read its findings, and how they see that nothing was written."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.cli.program import Program
from tests.support.daemon import free_port

WRONG = 78


class Examined:
    """The findings of one run, by check."""

    def __init__(self, code: int, told: Any) -> None:
        self.code = code
        self.is_ok: bool = told["ok"]
        self.checks: list[dict[str, Any]] = told["checks"]

    def __getitem__(self, check: str) -> dict[str, Any]:
        return next(found for found in self.checks if found["check"] == check)

    def expect(self, check: str, status: str, *words: str) -> None:
        """Checks that one finding of that name has the status and the words."""
        found = [one for one in self.checks if one["check"] == check]
        said = [f"{one['message']}. {one['way_out']}" for one in found if one["status"] == status]
        assert any(all(word in text for word in words) for text in said), found
        assert (self.code == WRONG) == any(one["status"] == "wrong" for one in self.checks)
        assert self.is_ok == (self.code == 0)


def examine(file: Path | str, *flags: str, url: str | None = None, **env: str) -> Examined:
    program = Program(url or f"http://127.0.0.1:{free_port()}")
    done = program("doctor", "--json", "--database", f"sqlite:///{file}", *flags, env=env)
    assert done.code in (0, WRONG), done
    assert done.err == "", done.err
    return Examined(done.code, json.loads(done.out))


def prints(file: Path) -> dict[str, tuple[str, int]]:
    """A fingerprint of the database's file and of each file beside it, with when it was written."""
    beside = sorted(file.parent.glob(f"{file.name}*"))
    found = [path for path in beside if not path.name.endswith(".log")]
    return {path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in found}
