"""Owns the end of a process that a body forked: it ends where the body ends, and never goes on as a second worker."""

import os
import sys
import traceback

_generation = 0


def generation() -> int:
    """Counts the forks between the first process and this one."""
    return _generation


def leave_if_forked(before: int, error: BaseException | None = None) -> None:
    """Ends this process if it was forked since. Its status is that of `sys.exit`, 1 after another error, else 0.

    Without this the copy of a worker would settle the same lease, over the same connections.
    """
    if _generation != before:
        _leave(error)


def _leave(error: BaseException | None) -> None:
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status & 0xFF)


def _count() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)
