"""Runs the state machine on the rows of one execution: loads what it needs, and writes what it changed."""

from __future__ import annotations

from typing import Final

from stepd.engine.commands import Answer, Command, NotFound
from stepd.engine.definition import Compiled
from stepd.engine.machine import decide
from stepd.engine.model import Execution
from stepd.engine.prefetch import needs_of_call
from stepd.engine.work import Loaded, Missing, Settings, Work
from stepd.store.base import Scope
from stepd.store.sqlite import loading
from stepd.store.sqlite.definitions import Definitions
from stepd.store.sqlite.scope import sees
from stepd.store.sqlite.transaction import Transaction
from stepd.store.sqlite.writing import write

ROUNDS: Final = 1_000
"""A decision that still misses rows after so many looks is a fault of the engine."""
EVERYTHING: Final = Scope()


class Decisions:
    """Decides with the settings of the daemon and the definitions it has compiled."""

    def __init__(self, settings: Settings, definitions: Definitions) -> None:
        self.settings = settings
        self.definitions = definitions

    def on_execution(
        self, transaction: Transaction, command: Command, execution_id: str, scope: Scope = EVERYTHING
    ) -> Answer:
        """Gives the command to the execution; NotFound where there is none in scope."""
        execution = loading.execution(transaction, execution_id)
        if execution is None or not sees(scope, execution):
            return NotFound()
        return self._carry_out(transaction, Loaded(execution), command)

    def on_attempt(
        self, transaction: Transaction, command: Command, attempt_id: str, scope: Scope = EVERYTHING
    ) -> Answer:
        """Gives the command to the execution that the attempt belongs to; NotFound where there is none in scope."""
        attempt = loading.attempt(transaction, attempt_id)
        execution = None if attempt is None else loading.execution(transaction, attempt.execution_id)
        if attempt is None or execution is None or not sees(scope, execution):
            return NotFound()
        loaded = Loaded(execution)
        loaded.attempts[attempt.id] = attempt
        definition = self.definition(transaction, execution)
        loading.load(transaction, loaded, needs_of_call(definition, execution, command, attempt))
        return self._carry_out(transaction, loaded, command)

    def think(self, transaction: Transaction, loaded: Loaded, command: Command) -> tuple[Answer, Work]:
        """Runs the machine, which may ask for more rows on the way; nothing is written yet."""
        definition = self.definition(transaction, loaded.execution)
        now = transaction.now()
        for _ in range(ROUNDS):
            work = Work(definition, self.settings, now, loaded)
            try:
                return decide(work, command), work
            except Missing as missing:
                loading.load(transaction, loaded, missing.needs)
        raise RuntimeError(f"{type(command).__name__} on execution {loaded.execution.id} never has all it needs")

    def definition(self, transaction: Transaction, execution: Execution) -> Compiled:
        """The definition an execution stands on."""
        found = self.definitions.get(transaction.connection, execution.workflow, execution.version)
        if found is None:
            raise RuntimeError(
                f"Execution {execution.id} stands on version {execution.version} of workflow {execution.workflow}, "
                "which is not in the store"
            )
        return found

    def _carry_out(self, transaction: Transaction, loaded: Loaded, command: Command) -> Answer:
        answer, work = self.think(transaction, loaded, command)
        write(transaction, loaded, work.changes)
        return answer
