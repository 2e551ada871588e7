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
from stepd.store.scope import sees
from stepd.store.transactions import Transaction

ROUNDS: Final = 1_000
"""A decision that still misses rows after so many looks is a fault of the engine."""
EVERYTHING: Final = Scope()


class Decisions:
    """Decides with the settings of the daemon."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def on_execution(
        self, transaction: Transaction, command: Command, execution_id: str, scope: Scope = EVERYTHING
    ) -> Answer:
        """Gives the command to the execution; NotFound where there is none in scope."""
        execution = await transaction.execution(execution_id)
        if execution is None or not sees(scope, execution):
            return NotFound()
        return await self._carry_out(transaction, Loaded(execution), command)

    async def on_attempt(
        self, transaction: Transaction, command: Command, attempt_id: str, scope: Scope = EVERYTHING
    ) -> Answer:
        """Gives the command to the execution that the attempt belongs to; NotFound where there is none in scope."""
        attempt = await transaction.attempt(attempt_id)
        execution = None if attempt is None else await transaction.execution(attempt.execution_id)
        if attempt is None or execution is None or not sees(scope, execution):
            return NotFound()
        loaded = Loaded(execution)
        loaded.attempts[attempt.id] = attempt
        definition = await self.definition(transaction, execution)
        await transaction.load(loaded, needs_of_call(definition, execution, command, attempt))
        return await self._carry_out(transaction, loaded, command)

    async def think(self, transaction: Transaction, loaded: Loaded, command: Command) -> tuple[Answer, Work]:
        """Runs the machine, which may ask for more rows on the way; nothing is written yet."""
        definition = await self.definition(transaction, loaded.execution)
        now = transaction.now()
        for _ in range(ROUNDS):
            work = Work(definition, self.settings, now, loaded)
            try:
                return decide(work, command), work
            except Missing as missing:
                await transaction.load(loaded, missing.needs)
        raise RuntimeError(f"{type(command).__name__} on execution {loaded.execution.id} never has all it needs")

    async def definition(self, transaction: Transaction, execution: Execution) -> Compiled:
        """The definition an execution stands on."""
        found = await transaction.definition(execution.workflow, execution.version)
        if found is None:
            raise RuntimeError(
                f"Execution {execution.id} stands on version {execution.version} of workflow {execution.workflow}, "
                "which is not in the store"
            )
        return found

    async def _carry_out(self, transaction: Transaction, loaded: Loaded, command: Command) -> Answer:
        answer, work = await self.think(transaction, loaded, command)
        await transaction.write(loaded, work.changes)
        return answer
