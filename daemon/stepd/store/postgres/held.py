"""The rows that a transaction holds: as they stand for it, whether they are written yet or not.

A row here is never changed: who wants to change one makes a copy.
"""

from __future__ import annotations

from typing import Any, assert_never

from stepd.engine.model import NO_INDEX, Attempt, Execution, Idempotency, Ledger, Signal, Step, output_name
from stepd.engine.work import Changes, Loaded, Need, StepKey


class Held:
    """Rows by their keys; None where it is known that there is none."""

    def __init__(self) -> None:
        self.executions: dict[str, Execution | None] = {}
        self.steps: dict[str, dict[StepKey, Step | None]] = {}
        self.whole: set[str] = set()
        """Executions all of whose step rows are here."""
        self.own: set[str] = set()
        """Executions all of whose steps' own rows are here."""
        self.items: set[tuple[str, int]] = set()
        """Execution and ordinal of steps all of whose items and outputs are here."""
        self.unsettled: dict[str, list[StepKey]] = {}
        """By execution, as long as nothing of it has been changed since the look."""
        self.attempts: dict[str, Attempt | None] = {}
        self.payloads: dict[tuple[str, str], bytes | None] = {}
        self.kept: dict[str, dict[str, list[Signal]]] = {}
        self.signals: dict[str, dict[int, Signal]] = {}
        self.sources: dict[str, dict[str, bool]] = {}
        self.all_attempts: dict[str, list[str]] = {}
        self.ledger: dict[str, dict[str, Ledger | None]] = {}
        self.successes: dict[str, dict[Need, StepKey | None]] = {}
        """These too by execution, as long as nothing of it has been changed since the look."""
        self.claims: dict[tuple[str, str], list[str] | None] = {}
        self.calls: dict[tuple[str, str, str], Idempotency | None] = {}

    def keep_step(self, row: Step) -> None:
        """Keeps a row as it was read, unless the transaction knows better."""
        self.steps.setdefault(row.execution_id, {}).setdefault((row.ordinal, row.index), row)

    def step(self, execution_id: str, key: StepKey) -> Step | None:
        """A step's row; None also where it is not here."""
        return self.steps.get(execution_id, {}).get(key)

    def missing(self, execution_id: str, need: Need) -> bool:
        """Whether what a decision needs is to be read first."""
        match need.kind:
            case "step":
                known = self.steps.get(execution_id, {})
                is_known = (need.ordinal, need.item) in known or execution_id in self.whole
                return not is_known and not (need.item == NO_INDEX and execution_id in self.own)
            case "attempt":
                return need.name not in self.attempts
            case "payload":
                return (execution_id, need.name) not in self.payloads
            case "unsettled":
                return execution_id not in self.unsettled
            case "rows":
                return execution_id not in self.whole
            case "own_rows":
                return execution_id not in self.whole and execution_id not in self.own
            case "items":
                return (execution_id, need.ordinal) not in self.items
            case "kept":
                return need.name not in self.kept.get(execution_id, {})
            case "signal":
                return need.ordinal not in self.signals.get(execution_id, {})
            case "source":
                return need.name not in self.sources.get(execution_id, {})
            case "attempts":
                return execution_id not in self.all_attempts
            case "ledger":
                return need.name not in self.ledger.get(execution_id, {})
            case "success":
                return need not in self.successes.get(execution_id, {})
            case _:
                assert_never(need.kind)

    def give(self, loaded: Loaded, need: Need) -> None:
        """Adds to ``loaded`` what a decision needs; all of it is here."""
        id_ = loaded.execution.id
        match need.kind:
            case "step":
                key = (need.ordinal, need.item)
                loaded.steps[key] = self.step(id_, key)
            case "attempt":
                found = self.attempts[need.name]
                loaded.attempts[need.name] = found if found is not None and found.execution_id == id_ else None
            case "payload":
                loaded.payloads[need.name] = self.payloads[(id_, need.name)]
            case "unsettled":
                loaded.unsettled = self.unsettled[id_]
                for key in loaded.unsettled:
                    row = loaded.steps[key] = self.step(id_, key)
                    if row is not None and row.lease_id is not None:
                        loaded.attempts[row.lease_id] = self.attempts[row.lease_id]
            case "rows":
                found_rows = {key: row for key, row in self.steps.get(id_, {}).items() if row is not None}
                loaded.steps.update(found_rows)
                loaded.rows = sorted(found_rows)
            case "own_rows":
                own_rows = {key: row for key, row in self.steps.get(id_, {}).items() if key[1] == NO_INDEX and row}
                loaded.steps.update(own_rows)
                loaded.own_rows = sorted(own_rows)
            case "items":
                loaded.items.add(need.ordinal)
                for key, row in self.steps.get(id_, {}).items():
                    if row is not None and key[0] == need.ordinal and key[1] != NO_INDEX:
                        name = output_name(*key)
                        loaded.steps[key], loaded.payloads[name] = row, self.payloads.get((id_, name))
            case "kept":
                loaded.kept[need.name] = self.kept[id_][need.name]
            case "signal":
                loaded.signals[need.ordinal] = self.signals[id_][need.ordinal]
            case "source":
                loaded.sources[need.name] = self.sources[id_][need.name]
            case "attempts":
                loaded.all_attempts = self.all_attempts[id_]
                loaded.attempts.update({attempt_id: self.attempts[attempt_id] for attempt_id in loaded.all_attempts})
            case "ledger":
                loaded.ledger[need.name] = self.ledger[id_][need.name]
            case "success":
                found_key = loaded.successes[need] = self.successes[id_][need]
                if found_key is not None:
                    loaded.steps[found_key] = self.step(id_, found_key)
            case _:
                assert_never(need.kind)

    def apply(self, changes: Changes) -> None:
        """Takes over what a decision changed."""
        id_ = changes.execution.id
        self.executions[id_] = changes.execution
        if changes.created:
            self.whole.add(id_)
        self.steps.setdefault(id_, {}).update(changes.steps)
        self.attempts.update(changes.attempts)
        for name, body in changes.payloads.items():
            self.payloads[(id_, name)] = body
        self._forget_looks(id_)

    def forget_steps(self, execution_id: str) -> None:
        """The step rows of this execution were changed past what is held: they are to be read again."""
        self.steps.pop(execution_id, None)
        self.whole.discard(execution_id)
        self.own.discard(execution_id)
        self.items = {known for known in self.items if known[0] != execution_id}
        self._forget_looks(execution_id)

    def _forget_looks(self, execution_id: str) -> None:
        looks: tuple[dict[str, Any], ...] = (
            self.unsettled,
            self.kept,
            self.signals,
            self.sources,
            self.all_attempts,
            self.ledger,
            self.successes,
        )
        for look in looks:
            look.pop(execution_id, None)
