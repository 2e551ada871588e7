"""Spans that workers export by OTLP: each finds its execution by its trace, and its attempt by the spans above it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from stepd.engine.commands import Reported, SpanReport
from stepd.engine.landings import DropLoose, KeepLoose, Landed, LandSpans, loose_key, loose_owner
from stepd.engine.model import Attempt, Execution
from stepd.engine.pieces import execution_span_id
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.otlp import Sent, answer_export, read_export
from stepd.service.reported import span_report
from stepd.service.traces import is_sampled, trace_id
from stepd.store.base import Decide, Operation
from stepd.store.reads import Scope, SpanLine, Traced
from stepd_protocol.leases import Span
from stepd_protocol.problems import Problem

LOOSE_MAX: Final = 5_000
"""Spans that one principal may have in an execution without anybody knowing whose they are."""
LOOSE_FULL: Final = f"{LOOSE_MAX} spans of this execution wait for the spans above them, and no more are kept"

_span = msgspec.json.Decoder(Span).decode


async def take_traces(daemon: Daemon, caller: Caller, body: bytes, media_type: str, encoding: str) -> Answer:
    """Takes an export: 200 also where spans of it were rejected, which the answer then tells."""
    async with daemon.reading:
        reading = await asyncio.to_thread(read_export, body, media_type, encoding, daemon.settings.limits)
    if isinstance(reading, Problem):
        return reading
    # Of a span that stands in it twice the last one counts.
    sent = list({(one.trace_id, one.span.span_id): one for one in reading.sent}.values())
    landing = _Landing(daemon, caller, sent)
    await landing.run()
    rejected = reading.total - len(reading.sent) + len(landing.rejected)
    return answer_export(media_type, rejected, [*reading.reasons, *landing.rejected.values()])


class _Landing:
    """The spans of one export on their way."""

    def __init__(self, daemon: Daemon, caller: Caller, sent: Sequence[Sent]) -> None:
        self._daemon = daemon
        self._principal = caller.principal
        self._tenants = caller.tenants
        self._sent = {(one.trace_id, one.span.span_id): one for one in sent}
        self.rejected: dict[tuple[str, str], str] = {}
        """Why, by trace and span."""

    async def run(self) -> None:
        """Lets each span land under its attempt, or under none where only its execution is sure. Raises
        StoreUnavailable.
        """
        if not self._sent:
            return
        known = _Known(await self._look(self._sent.values()), self._principal)
        tied, loose = self._sorted(known)
        await self._keep_loose(known, loose)
        for attempt, spans in tied.values():
            await self._land(known.traced.executions[attempt.execution_id], attempt, spans)
        await self._adopt(known, {key: attempt for attempt, spans in tied.values() for key in _keys(spans)})
        if loose:
            await self._look_again(loose)

    def _sorted(self, known: _Known) -> tuple[dict[str, tuple[Attempt, list[Sent]]], list[Sent]]:
        """The spans by their attempts, and those that are tied to none; rejects what is in nobody's place."""
        tied: dict[str, tuple[Attempt, list[Sent]]] = {}
        loose: list[Sent] = []
        for key, one in self._sent.items():
            if (reason := known.refuses(key)) is not None:
                self.rejected[key] = reason
            elif (attempt := known.attempt_of(key, self._sent)) is not None:
                tied.setdefault(attempt.id, (attempt, []))[1].append(one)
            elif isinstance(home := known.home_of(one.trace_id), str):
                self.rejected[key] = home
            else:
                loose.append(one)
        return tied, loose

    async def _look(self, sent: Iterable[Sent]) -> Traced:
        ids = {id_ for one in sent for id_ in (one.span.span_id, one.span.parent_span_id) if id_ is not None}
        traces = {one.trace_id for one in self._sent.values()}
        return await self._daemon.store.traced(sorted(traces), sorted(ids), Scope(self._tenants))

    async def _land(self, execution: Execution, attempt: Attempt, sent: Sequence[Sent]) -> None:
        reports = tuple(span_report(one.span) for one in sent)
        answer = await self._submit(self._command(attempt, reports))
        if not isinstance(answer, Landed):
            self.rejected |= dict.fromkeys(_keys(sent), "its execution is gone")
            return
        for key, one in zip(_keys(sent), sent, strict=True):
            if one.span.span_id in answer.beyond:
                self.rejected[key] = "as many spans of this attempt are kept already as may be"
            elif one.span.span_id in answer.fresh:
                self._forward(execution, one)

    async def _keep_loose(self, known: _Known, loose: Sequence[Sent]) -> None:
        by_home: dict[str, list[Sent]] = {}
        for one in loose:
            home = known.home_of(one.trace_id)
            assert isinstance(home, Execution)
            by_home.setdefault(home.id, []).append(one)
        owner = loose_owner(self._principal)
        for execution_id, sent in by_home.items():
            count = await self._daemon.store.loose_count(execution_id, owner, LOOSE_MAX)
            room = max(0, LOOSE_MAX - count)
            self.rejected |= dict.fromkeys(_keys(sent[room:]), LOOSE_FULL)
            keyed = tuple((self._key(one.span.parent_span_id), span_report(one.span)) for one in sent[:room])
            if not keyed:
                continue
            if not isinstance(await self._submit(self._on(execution_id, KeepLoose(keyed))), Landed):
                self.rejected |= dict.fromkeys(_keys(sent), "its execution is gone")
                continue
            for key, one in zip(_keys(sent[:room]), sent, strict=False):
                if (execution_id, self._key(one.span.parent_span_id), key[1]) not in known.kept:
                    self._forward(known.traced.executions[execution_id], one)

    async def _look_again(self, loose: Sequence[Sent]) -> None:
        """What these were kept loose for may have landed by another call meanwhile, which did not see them."""
        known = _Known(await self._look(loose), self._principal)
        above = {}
        for one in loose:
            parent = one.span.parent_span_id
            attempt = None if parent is None else known.attempt_at((one.trace_id, parent))
            if parent is not None and attempt is not None:
                above[(one.trace_id, parent)] = attempt
        await self._adopt(known, above)

    async def _adopt(self, known: _Known, above: dict[tuple[str, str], Attempt]) -> None:
        """Lets what was kept loose below these spans land under their attempts, and what is below that."""
        while above:
            below: dict[tuple[str, str], Attempt] = {}
            for trace, home in known.homes():
                parents = {self._key(span): attempt for (of, span), attempt in above.items() if of == trace}
                if not parents:
                    continue
                lines = await self._daemon.store.loose_spans(home.id, sorted(parents))
                await self._move(home, lines, parents)
                below |= {(trace, line.span_id): parents[line.attempt_id] for line in lines}
            above = below

    async def _move(self, home: Execution, lines: Sequence[SpanLine], parents: dict[str, Attempt]) -> None:
        by_attempt: dict[str, tuple[Attempt, list[SpanLine]]] = {}
        for line in lines:
            attempt = parents[line.attempt_id]
            by_attempt.setdefault(attempt.id, (attempt, []))[1].append(line)
        for attempt, some in by_attempt.values():
            reports = tuple(span_report(_span(line.body)) for line in some)
            keys = tuple(line.key for line in some)
            if attempt.execution_id == home.id:
                await self._submit(self._command(attempt, reports, keys))
            else:
                await self._submit(self._command(attempt, reports), self._on(home.id, DropLoose(keys)))

    def _command(
        self, attempt: Attempt, reports: tuple[SpanReport, ...], loose: tuple[tuple[str, str], ...] = ()
    ) -> Decide:
        reported = Reported(spans=reports, prices=self._daemon.prices.table)
        command = LandSpans(attempt.id, self._principal, reported, loose)
        return Decide(command, attempt_id=attempt.id, tenants=self._tenants)

    def _on(self, execution_id: str, command: KeepLoose | DropLoose) -> Decide:
        return Decide(command, execution_id=execution_id, tenants=self._tenants)

    async def _submit(self, *operations: Operation) -> Any:
        """The answer to the first of them."""
        return (await self._daemon.store.submit(*operations))[0]

    def _key(self, parent: str | None) -> str:
        return loose_key(self._principal, parent)

    def _forward(self, execution: Execution, one: Sent) -> None:
        if is_sampled(execution):
            self._daemon.telemetry.received(one)


class _Known:
    """What the store knows of the spans and traces of an export, as far as it is this principal's."""

    def __init__(self, traced: Traced, principal: str) -> None:
        self.traced = traced
        self.kept = frozenset(traced.kept)
        self._principal = principal
        self._taken: set[tuple[str, str]] = set()
        self._attempts: dict[tuple[str, str], Attempt] = {}
        self._others: set[tuple[str, str]] = set()
        for attempt in traced.attempts.values():
            if (execution := traced.executions.get(attempt.execution_id)) is not None:
                key = (trace_id(execution.id, execution.traceparent), attempt.span_id)
                self._taken.add(key)
                self._note(key, attempt)
        for execution_id, attempt_id, span_id in traced.kept:
            kept_under, execution = traced.attempts.get(attempt_id), traced.executions.get(execution_id)
            if kept_under is not None and execution is not None:
                self._note((trace_id(execution.id, execution.traceparent), span_id), kept_under)
        for execution in traced.executions.values():
            self._taken.add((trace_id(execution.id, execution.traceparent), execution_span_id(execution)))

    def _note(self, key: tuple[str, str], attempt: Attempt) -> None:
        if attempt.principal == self._principal:
            self._attempts[key] = attempt
        else:
            self._others.add(key)

    def refuses(self, key: tuple[str, str]) -> str | None:
        """Why no span may bear this id in this trace, if none may."""
        if key in self._taken:
            return "spanId is that of an execution or an attempt"
        if key in self._others and key not in self._attempts:
            return "spanId is that of another worker's span"
        return None

    def attempt_at(self, key: tuple[str, str]) -> Attempt | None:
        """The attempt that bears this span, or under which it is kept."""
        return self._attempts.get(key)

    def attempt_of(self, key: tuple[str, str], sent: dict[tuple[str, str], Sent]) -> Attempt | None:
        """The attempt of a span: where it is kept already, else that of the first span above it that has one."""
        trace, seen = key[0], set[tuple[str, str]]()
        while key not in seen:
            seen.add(key)
            if (attempt := self._attempts.get(key)) is not None:
                return attempt
            above = sent[key].span.parent_span_id if key in sent else None
            if above is None:
                return None
            key = (trace, above)
        return None

    def home_of(self, trace: str) -> Execution | str:
        """The execution that a trace belongs to, or why that isn't sure."""
        found = self.traced.of_trace[trace]
        if len(found) == 1:
            return self.traced.executions[found[0]]
        if not found:
            return "no execution that this key may see is in this trace"
        return "several executions are in this trace, and none of the spans above it is known"

    def homes(self) -> list[tuple[str, Execution]]:
        """The traces of which it is sure which execution they belong to, with that."""
        return [(trace, self.traced.executions[ids[0]]) for trace, ids in self.traced.of_trace.items() if len(ids) == 1]


def _keys(sent: Iterable[Sent]) -> list[tuple[str, str]]:
    return [(one.trace_id, one.span.span_id) for one in sent]
