"""Stands for the services outside: each does a thing once a key, however often it is asked, and can undo it."""

import threading
from typing import Any


class Service:
    """A service that knows its requests by their idempotency key. In memory: what it did ends with the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._done: dict[str, Any] = {}
        self._lock = threading.Lock()

    def do(self, key: str, request: Any) -> str:
        """Does it, or has done it already; the receipt."""
        with self._lock:
            self._done.setdefault(f"{self._name} {key}", request)
        return f"{self._name} {key}"

    def undo(self, receipt: str) -> None:
        """Undoes it, or has undone it already."""
        with self._lock:
            self._done.pop(receipt, None)

    def standing(self, part: str) -> list[Any]:
        """What was done and not undone, of the receipts that hold this text."""
        with self._lock:
            return [request for receipt, request in self._done.items() if part in receipt]


warehouse, bank, carrier = Service("reservation"), Service("charge"), Service("parcel")
