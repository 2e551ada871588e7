"""Owns that threads go on in the trace of the body that starts them, also those of a pool that a body hands work to.

Python gives a new thread an empty context, so that a span made there would stand alone. What is wrapped here passes on
OpenTelemetry's context and nothing else, and only in bodies; work handed to a pool has the context of who hands it
over, never that of whoever made the pool's thread.
"""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from opentelemetry.context import Context, attach, detach, get_current

P = ParamSpec("P")
T = TypeVar("T")

_MARK: Final = "_stepd_inherits"


def inherit_in_threads(is_in_body: Callable[[], bool]) -> None:
    """Wraps `Thread.start` and `ThreadPoolExecutor.submit`, where that was not done yet."""
    start: Callable[[threading.Thread], None] = threading.Thread.start
    submit: Callable[..., Any] = ThreadPoolExecutor.submit
    if hasattr(start, _MARK):
        return

    @functools.wraps(start)
    def start_in_context(thread: threading.Thread) -> None:
        if is_in_body():
            _wrap_run(thread)
        start(thread)

    @functools.wraps(submit)
    def submit_in_context(pool: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not is_in_body():
            return submit(pool, work, *args, **kwargs)
        work = functools.partial(_run, get_current(), work)
        nowhere = attach(Context())  # a thread that the pool starts for it belongs to nobody
        try:
            return submit(pool, work, *args, **kwargs)
        finally:
            detach(nowhere)

    setattr(start_in_context, _MARK, True)
    for owner, name, wrapped in (
        (threading.Thread, "start", start_in_context),
        (ThreadPoolExecutor, "submit", submit_in_context),
    ):
        setattr(owner, name, wrapped)


def _wrap_run(thread: threading.Thread) -> None:
    run = functools.partial(_run, get_current(), thread.run)
    try:
        thread.run = run  # type: ignore[method-assign]  # on the object, for classes with a `run` of their own too
    except AttributeError:
        pass  # a class that lets nobody: its thread has no part in the trace


def _run(context: Context, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    token = attach(context)
    try:
        return work(*args, **kwargs)
    finally:
        detach(token)
