"""What a transaction has decided and not written yet: gathered, and written with a fixed number of statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import astuple

from stepd.engine.model import Attempt, Audit, Execution, Idempotency, Ledger, Signal, Step
from stepd.engine.spending import UsageRow
from stepd.engine.work import Changes
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import (
    ATTEMPTS,
    AUDIT,
    CUT_USAGE,
    DROP_SPANS,
    EVENTS,
    EXECUTIONS,
    IDEMPOTENCY,
    INSERT_CLAIMS,
    INSERT_LABELS,
    LEDGER,
    SIGNALS,
    STEPS,
    UPSERT_PAYLOADS,
    UPSERT_SPANS,
    USAGE,
    columns,
)
from stepd.store.summing import kept

Statement: TypeAlias = tuple[str, list[Any]]
"""With its parameters; none where there is nothing to write."""

_PARAMETER: Final = re.compile(r"\$(\d+)")

NO_LABELS: Final = 2
"""Length of ``{}``."""


class Pending:
    """Rows to be written, each as it stands at last."""

    def __init__(self) -> None:
        self._created: dict[str, Execution] = {}
        self._executions: dict[str, Execution] = {}
        self._steps: dict[tuple[str, int, int], Step] = {}
        self._attempts: dict[str, Attempt] = {}
        self._payloads: dict[tuple[str, str], bytes] = {}
        self._events: list[tuple[Any, ...]] = []
        self._spans: dict[tuple[str, str, str], bytes] = {}
        self._dropped_spans: set[tuple[str, str, str]] = set()
        self._signals: dict[tuple[str, int], Signal] = {}
        self._audit: list[Audit] = []
        self._ledger: list[Ledger] = []
        self._usage: dict[str, list[UsageRow]] = {}
        self._calls: list[Idempotency] = []
        self._claims: list[tuple[str, str, str, int]] = []

    def add(self, changes: Changes) -> None:
        """Adds what a decision changed, but for its bulk changes."""
        execution = changes.execution
        id_ = execution.id
        if changes.created or id_ in self._created:
            self._created[id_] = execution
        else:
            self._executions[id_] = execution
        for (ordinal, index), row in changes.steps.items():
            self._steps[(id_, ordinal, index)] = row
        self._attempts.update(changes.attempts)
        for name, body in changes.payloads.items():
            self._payloads[(id_, name)] = body
        self._events += [(id_, *astuple(event)) for event in changes.events]
        for dropped in changes.dropped_spans:
            self._spans.pop((id_, *dropped), None)
            self._dropped_spans.add((id_, *dropped))
        for span in changes.spans:
            self._dropped_spans.discard((id_, span.attempt_id, span.span_id))
            self._spans[(id_, span.attempt_id, span.span_id)] = span.body
        for number, signal in changes.signals.items():
            self._signals[(id_, number)] = signal
        self._audit += changes.audit
        self._ledger += changes.ledger
        self._usage.update(changes.usage)

    def add_audit(self, rows: Sequence[Audit]) -> None:
        """Adds audit rows that belong to no decision."""
        self._audit += rows

    def add_call(self, row: Idempotency) -> None:
        """Adds the first answer to a call with a key."""
        self._calls.append(row)

    def add_claim(self, principal: str, claim_id: str, leases: list[str], now: int) -> None:
        """Adds the leases that a claim was dealt."""
        self._claims.append((principal, claim_id, msgspec.json.encode(leases).decode(), now))

    def concerns(self, execution_id: str) -> bool:
        """Whether anything is to be written of this execution."""
        return execution_id in self._executions or execution_id in self._created

    async def write(self, session: Session, last: Statement | None = None) -> None:
        """Writes it all with one statement, to which ``last`` belongs, one that is for its effect only.

        Rows that others may write too go in the order of their keys, so that two daemons don't wait for each other.
        """
        claims = sorted(self._claims)
        calls = sorted(self._calls, key=lambda row: (row.principal, row.target, row.key))
        created = [self._created[id_] for id_ in sorted(self._created)]
        labels = [label for row in created for label in _labels(row)]
        statements: list[Statement] = [
            (INSERT_CLAIMS, columns(claims)),
            (IDEMPOTENCY.insert, IDEMPOTENCY.lists(calls)),
            (EXECUTIONS.insert, EXECUTIONS.lists(created)),
            (INSERT_LABELS, columns(labels)),
            (EXECUTIONS.update, EXECUTIONS.lists(self._executions.values())),
            (STEPS.upsert, STEPS.lists(self._steps.values())),
            (ATTEMPTS.upsert, ATTEMPTS.lists(self._attempts.values())),
            (UPSERT_PAYLOADS, columns([(*key, body) for key, body in self._payloads.items()])),
            (EVENTS.insert, columns(self._events)),
            (DROP_SPANS, columns(sorted(self._dropped_spans))),
            (UPSERT_SPANS, columns([(*key, body) for key, body in self._spans.items()])),
            (SIGNALS.upsert, SIGNALS.lists(self._signals.values())),
            (AUDIT.insert, AUDIT.lists(self._audit)),
            (LEDGER.insert, LEDGER.lists(self._ledger)),
            (CUT_USAGE, columns([(id_, len(rows)) for id_, rows in self._usage.items()])),
            (USAGE.upsert, USAGE.lists(kept(row) for rows in self._usage.values() for row in rows)),
        ]
        wanted = [statement for statement in statements if statement[1]]
        if last is not None:
            wanted.append(last)
        if wanted:
            parameters = [each for _, lists in wanted for each in lists]
            await session.execute(_together(*(text for text, _ in wanted)), *parameters)


@lru_cache(maxsize=256)
def _together(*statements: str) -> str:
    """One statement that does what these do, with the parameters of each behind those of the one before."""
    shifted, parameters = [], 0
    for text in statements:
        shifted.append(_shifted(text, parameters))
        parameters += max(map(int, _PARAMETER.findall(text)))
    *others, last = shifted
    if not others:
        return last
    named = ", ".join(f"part_{number} as ({text})" for number, text in enumerate(others))
    return f"with {named} {last}"


def _shifted(text: str, by: int) -> str:
    return _PARAMETER.sub(lambda found: f"${int(found[1]) + by}", text)


def _labels(row: Execution) -> list[tuple[str, str, int, str]]:
    if len(row.labels) <= NO_LABELS:
        return []
    labels = msgspec.json.decode(row.labels, type=dict[str, str])
    return [(key, value, row.created_at, row.id) for key, value in labels.items()]
