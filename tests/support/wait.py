"""Waiting in tests: polls with a deadline, calls that run beside the test, and moments that are meant to pass."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], *, seconds: float = 10, every: float = 0.02, what: str = "") -> T:
    """What `look` gives once that is true-like; fails with its last value when `seconds` have passed."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or 'true'}; last seen: {seen!r}"
        moment(every)
    return seen


def moment(seconds: float) -> None:
    """Lets time pass where its passing is what the test is about: a lease that runs out, a call that gets parked."""
    threading.Event().wait(seconds)


def beside(call: Callable[[], T]) -> Future[T]:
    """Runs `call` on a thread of its own; the future has its result or its exception."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 — handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def together(calls: list[Callable[[], T]], *, seconds: float = 30) -> list[T]:
    """Runs all calls at the same time; their results in the same order."""
    gate = threading.Barrier(len(calls))

    def behind_the_gate(call: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            gate.wait(seconds)
            return call()

        return run

    futures = [beside(behind_the_gate(call)) for call in calls]
    return [future.result(seconds) for future in futures]
