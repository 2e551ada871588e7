"""Owns the calls that start, look at and steer executions, for plain and for asynchronous code."""

import math
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from stepd_protocol.names import ENDED_STATUSES
from stepd_worker.both_worlds import call, stream
from stepd_worker.client_calls import (
    Json,
    Patience,
    Strings,
    decoded_events,
    execution_path,
    only_given,
    workflow_path,
)
from stepd_worker.errors import ExecutionNotCompleted, StepdError, Unreachable
from stepd_worker.operating import OperatorCalls
from stepd_worker.retry import is_no_answer
from stepd_worker.transport import READ_SECONDS, NoAnswer, api_error

WAIT_SECONDS: Final = 30.0
"""How long one call asks the daemon to hold it; a longer wait is made of several."""
# The stream has a comment every 15 s: silence for three of them is a dead connection.
STREAM_SILENCE_SECONDS: Final = 45.0

_SETTLED = ENDED_STATUSES | {"reconciliation_required"}
_LAST_EVENTS = frozenset(f"execution.{status}" for status in ENDED_STATUSES)


class Client(OperatorCalls):
    """Calls to one daemon. Every call has two faces: `client.get(…)` blocks, `await client.get.aio(…)` doesn't.

    `url` and `key` left out come from STEPD_URL (else http://127.0.0.1:7117) and STEPD_KEY. A call that gets no answer,
    5xx or 429 is sent again for `retry_seconds`, then raises `Unreachable`, or `ApiError` where the daemon did answer;
    every other refusal raises `ApiError` at once. Answers are the daemon's JSON. Safe to use from several threads.
    """

    # --- Executions

    @call
    async def start(
        self,
        workflow: str,
        input: Any = None,
        *,
        version: str | None = None,
        state: Mapping[str, Any] | None = None,
        correlation: str | None = None,
        tenant: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: int | None = None,
        start_at: str | None = None,
        on_restart: str | None = None,
        exclusive: bool | None = None,
        budget: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
    ) -> Json:
        """Starts an execution and returns its view; it is durable by then.

        `input` is any JSON, also dataclasses and msgspec Structs; `start_at` an RFC 3339 time with an offset; `budget`
        as `Workflow` takes it, in place of the definition's. The same
        `idempotency_key` with the same rest starts nothing new; left out, one is made, so that a lost answer starts
        nothing twice either. Raises ApiError: `not_found`, `invalid_input`, `occupied`, `idempotency_conflict`, others.
        """
        given = {
            "version": version,
            "state": state,
            "correlation": correlation,
            "tenant": tenant,
            "labels": labels,
            "priority": priority,
            "start_at": start_at,
            "on_restart": on_restart,
            "exclusive": exclusive,
            "budget": budget,
        }
        body = {"workflow": workflow, "input": input, **only_given(given)}
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        return await self._ask("POST", "/v1/executions", body, headers=headers)

    @call
    async def get(self, execution_id: str, *, include: Strings = (), wait_seconds: float | None = None) -> Json:
        """An execution's view. `include` may name `attempts` and `payloads`; `wait_seconds` (0 to 60) answers when it
        has ended or needs reconciliation, or then. Raises ApiError `not_found`."""
        query = {"include": ",".join(include) or None, "wait_seconds": wait_seconds}
        return await self._ask(
            "GET", execution_path(execution_id), query=query, read_seconds=READ_SECONDS + (wait_seconds or 0)
        )

    @call
    async def wait(self, execution_id: str, *, timeout_seconds: float | None = None) -> Json:
        """Waits until an execution has ended or needs reconciliation, and returns its view. Raises TimeoutError."""
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            left = deadline - time.monotonic()
            view = await self.get.aio(execution_id, wait_seconds=round(min(WAIT_SECONDS, max(left, 0)), 3))
            if view["status"] in _SETTLED:
                return view
            if time.monotonic() >= deadline:
                raise TimeoutError(f"The execution {execution_id} is still {view['status']} after {timeout_seconds} s")

    @call
    async def result(self, execution_id: str, *, timeout_seconds: float | None = None) -> Any:
        """Waits for an execution and returns its output.

        Raises ExecutionNotCompleted where it ends otherwise or needs reconciliation, and TimeoutError.
        """
        view = await self.wait.aio(execution_id, timeout_seconds=timeout_seconds)
        if view["status"] != "completed":
            raise ExecutionNotCompleted(view)
        return view["output"]

    @call
    async def items(
        self,
        execution_id: str,
        step: str,
        *,
        include: Strings = (),
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Json:
        """One page of the items or rounds of a step, `{"items", "next"}`, by their index, each as a step of a view."""
        path = execution_path(execution_id, f"/steps/{quote(step, safe='')}/items")
        return await self._ask(
            "GET", path, query={"include": ",".join(include) or None, "limit": limit, "cursor": cursor}
        )

    @stream
    async def events(self, execution_id: str, *, after: int = 0, live: bool = False) -> AsyncGenerator[Json, None]:
        """The journal's events with a `seq` beyond `after`, in order; with `live`, on until the execution has ended.

        A broken stream is taken up where it broke. Raises ApiError, and Unreachable as calls do.
        """
        events = self._live_events(execution_id, after) if live else self._stored_events(execution_id, after)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    @call
    async def list(
        self,
        *,
        workflow: str | None = None,
        version: str | None = None,
        status: Strings = (),
        correlation: str | None = None,
        tenant: str | None = None,
        label: str | None = None,
        blocked: bool | None = None,
        created_after: str | None = None,
        created_before: str | None = None,
        order: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Json:
        """One page of executions, `{"items", "next"}`, newest first; `next` is the `cursor` of the next page, which
        holds the filters. `label` is `key:value`; `status` may name several."""
        query = {
            "workflow": workflow,
            "version": version,
            "status": [status] if isinstance(status, str) else status,
            "correlation": correlation,
            "tenant": tenant,
            "label": label,
            "blocked": blocked,
            "created_after": created_after,
            "created_before": created_before,
            "order": order,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._ask("GET", "/v1/executions", query=query)

    @call
    async def cancel(self, execution_id: str, *, reason: str | None = None, force: bool = False) -> Json:
        """Asks an execution to end; `force` doesn't wait for writes in flight. Raises ApiError `already_ended`."""
        body = only_given({"reason": reason, "force": force or None})
        return await self._ask("POST", execution_path(execution_id, "/cancel"), body)

    @call
    async def signal(
        self, execution_id: str, name: str, payload: Any = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Hands a payload, any JSON, to a wait of this name; it is kept where none is armed yet. Returns the view.

        The same `idempotency_key` with the same rest signals nothing twice; left out, one is made, so that a lost
        answer doesn't either. Raises ApiError: `not_signalable`, `already_ended`, `invalid_input`, others.
        """
        return await self._tell(
            execution_path(execution_id, "/signals"), {"name": name, "payload": payload}, idempotency_key
        )

    @call
    async def publish(
        self, name: str, correlation: str, payload: Any = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Hands a payload to every open execution with this correlation that can take it; returns `{"delivered"}`.

        `idempotency_key` as in `signal`: sent again with it, an event reaches nobody twice.
        """
        body = {"name": name, "correlation": correlation, "payload": payload}
        return await self._tell("/v1/events", body, idempotency_key)

    @call
    async def pause(self, execution_id: str) -> Json:
        """Stops handing out an execution's steps. Raises ApiError `not_pausable`."""
        return await self._ask("POST", execution_path(execution_id, "/pause"), {})

    @call
    async def resume(self, execution_id: str, *, budget: Mapping[str, Any] | None = None) -> Json:
        """Ends a pause. What `budget` gives, `cost`, `tokens` or both, takes the place of what stands (None: no bound).

        Raises ApiError `not_pausable` where the budget is used up and isn't raised beyond what was used.
        """
        return await self._ask("POST", execution_path(execution_id, "/resume"), only_given({"budget": budget}))

    # --- The service

    @call
    async def register(self, workflow: str, definition: Mapping[str, Any]) -> Json:
        """Registers one version of a workflow. Raises ApiError `invalid_definition`, `definition_conflict`."""
        return await self._ask("PUT", workflow_path(workflow), dict(definition))

    @call
    async def workflows(self) -> Json:
        """The registered workflows, `{"items", "next"}`."""
        return await self._ask("GET", "/v1/workflows")

    @call
    async def workflow(self, workflow: str) -> Json:
        """One workflow: its versions, which is current, and whether a live worker serves each."""
        return await self._ask("GET", workflow_path(workflow))

    @call
    async def use(self, workflow: str, version: str) -> Json:
        """Makes a version the one that new executions get."""
        return await self._ask("POST", workflow_path(workflow, "/current"), {"version": version})

    @call
    async def simulate(
        self,
        workflow: str,
        input: Any = None,
        *,
        version: str | None = None,
        state: Mapping[str, Any] | None = None,
        correlation: str | None = None,
        steps: Mapping[str, Any] | None = None,
        signals: Sequence[Mapping[str, Any]] | None = None,
    ) -> Json:
        """What a workflow would do, were its steps to come to this: its path, the rules that matched, its state.

        `steps` has for ids of tasks and `workflow` steps `{"output": …}`, `{"fail": {"class": …}}`, None, which is a
        success without an output, or a list: one for each attempt, or for each item or round. `signals` are
        `{"name": …, "payload": …}`. Nothing is kept, and nobody is called. Raises ApiError: `not_found`,
        `invalid_input`, `invalid_request`.
        """
        given = {
            "version": version,
            "state": state,
            "correlation": correlation,
            "steps": steps or None,
            "signals": signals or None,
        }
        return await self._ask("POST", workflow_path(workflow, "/simulate"), {"input": input, **only_given(given)})

    @call
    async def workers(self) -> Json:
        """The workers that the daemon has heard of lately, `{"items", "next"}`."""
        return await self._ask("GET", "/v1/workers")

    @call
    async def service(self) -> Json:
        """The daemon's service: id, name, version, and which parts are on."""
        return await self._ask("GET", "/v1/service")

    async def _stored_events(self, execution_id: str, after: int) -> AsyncGenerator[Json, None]:
        position: int | None = after
        while position is not None:
            page = await self._ask("GET", execution_path(execution_id, "/events"), query={"after": position})
            for event in page["items"]:
                yield event
            position = page["next"]

    async def _live_events(self, execution_id: str, after: int) -> AsyncGenerator[Json, None]:
        last, patience = after, Patience(self.retry_seconds)
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last)}
            trouble: StepdError = Unreachable(f"The stream of {execution_id} was cut")
            retry_after = None
            try:
                async with self._transport.stream(
                    execution_path(execution_id, "/events"), headers=headers, read_seconds=STREAM_SILENCE_SECONDS
                ) as (answer, content):
                    if answer.status == 204:
                        return
                    if content is None and not is_no_answer(answer.status):
                        raise api_error(answer)
                    if content is None:
                        trouble, retry_after = api_error(answer), answer.retry_after
                    else:
                        async for event in decoded_events(content):
                            patience = Patience(self.retry_seconds)
                            last = event["seq"]
                            yield event
                            if event["type"] in _LAST_EVENTS:
                                return
            except NoAnswer as fault:
                trouble = Unreachable(str(fault))
            await patience.wait(trouble, retry_after)
