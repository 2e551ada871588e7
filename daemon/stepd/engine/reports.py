"""What an attempt reports beside its outcome: progress, usage and spans, priced and summed into its execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from stepd.engine.commands import Reported
from stepd.engine.model import Attempt, Execution, SpanRow, progress_name
from stepd.engine.pricing import COUNTS, Line, PriceTable, capped, merged, moved, priced
from stepd.engine.spending import UsageRow
from stepd.engine.work import Work

SPANS_MAX = 10_000
"""Spans that are kept of one attempt."""

Spans: TypeAlias = dict[str, tuple[str | None, list[Line] | None]]
"""Of each span of an attempt its parent, and what itself used."""

read_lines = msgspec.json.Decoder(list[Line]).decode
"""Reads an attempt's usage as its row keeps it."""

_read_spans = msgspec.json.Decoder(Spans).decode
_encode = msgspec.json.Encoder().encode


def take_report(work: Work, attempt: Attempt, reported: Reported) -> None:
    """Keeps progress, usage and spans of a call; each replaces what was sent before (a span by its id).

    A usage is priced once, when it is first reported.
    """
    if reported.progress is not None:
        attempt.has_progress = True
        work.changes.payloads[progress_name(attempt.id)] = reported.progress
    if reported.usage is not None:
        attempt.usage_given = True
        table = _table(work.execution, reported)
        given = priced(read_lines(reported.usage), table, work.now, _lines(attempt))
        _set_usage(work, attempt, given, table)
    if reported.spans:
        summed = _take_spans(work, attempt, reported)
        if not attempt.usage_given:
            _set_usage(work, attempt, summed, _table(work.execution, reported))


def span_usage_name(attempt_id: str) -> str:
    """The payload that says which span of an attempt used what: ``{span id: [parent, usages or null]}``."""
    return f"spans:{attempt_id}"


def _take_spans(work: Work, attempt: Attempt, reported: Reported) -> list[Line]:
    """Keeps the spans. The usages of those sent so far; a span below which any span counts does not count itself."""
    name = span_usage_name(attempt.id)
    kept = work.payload(name)
    known: Spans = {} if kept is None else _read_spans(kept)
    table = _table(work.execution, reported)
    for span in reported.spans:
        fresh = span.span_id not in known
        if fresh and len(known) >= SPANS_MAX:
            continue
        work.changes.spans.append(SpanRow(attempt.id, span.span_id, span.body, fresh))
        before = known.get(span.span_id, (None, None))[1] or ()
        lines = None if span.usage is None else priced(read_lines(span.usage), table, work.now, before)
        known[span.span_id] = (span.parent_span_id, lines)
    work.changes.payloads[name] = _encode(known)
    return merged(_counted(known))


def _counted(spans: Spans) -> list[Line]:
    above: set[str] = set()
    for span_id, (parent, lines) in spans.items():
        if lines is None or span_id in above:
            continue
        while parent in spans and parent not in above and parent != span_id:
            above.add(parent)
            parent = spans[parent][0]
    return [line for span_id, (_, lines) in spans.items() if span_id not in above for line in lines or ()]


def _table(execution: Execution, reported: Reported) -> PriceTable | None:
    """The prices that count: none in another currency than what the execution has cost already."""
    table = reported.prices
    return table if table is None or execution.currency in (None, table.currency) else None


def _lines(attempt: Attempt) -> list[Line]:
    return [] if attempt.usage is None else read_lines(attempt.usage)


def _set_usage(work: Work, attempt: Attempt, after: list[Line], table: PriceTable | None) -> None:
    """Replaces an attempt's usage, also in the log, and moves its execution's sums by the difference."""
    execution, before, kept = work.execution, _lines(attempt), _encode(after)
    if kept == (attempt.usage or b"[]"):
        return
    attempt.usage = kept
    if table is not None and any(line.prices == table.version and line.cost is not None for line in after):
        execution.currency = table.currency
    for name, old, new in zip(COUNTS, _sums(before), _sums(after), strict=True):
        setattr(execution, name, moved(getattr(execution, name), new - old))
    execution.cost_nano = moved(execution.cost_nano, _cost(after) - _cost(before))
    execution.unpriced_tokens = moved(execution.unpriced_tokens, _unpriced(after) - _unpriced(before))
    work.changes.usage[attempt.id] = list(_rows(work, attempt, merged(after)))


def _rows(work: Work, attempt: Attempt, lines: list[Line]) -> Iterator[UsageRow]:
    """The attempt's lines as the log has them."""
    seen: Counter[str] = Counter()
    for place, line in enumerate(lines):
        yield _row(work, attempt, line, place, seen[line.model])
        seen[line.model] += 1


def _row(work: Work, attempt: Attempt, line: Line, place: int, of_model: int) -> UsageRow:
    execution = work.execution
    return UsageRow(
        attempt_id=attempt.id,
        line=place,
        execution_id=execution.id,
        workflow=execution.workflow,
        version=execution.version,
        step=work.definition.steps[attempt.ordinal].id,
        tenant=execution.tenant,
        labels=execution.labels,
        at=work.now,
        model=line.model,
        **line.named_counts,
        cost_nano=line.cost,
        currency=None if line.cost is None else execution.currency,
        prices=line.prices,
        unpriced_tokens=capped(line.unpriced),
        of_model=of_model,
    )


def _sums(lines: list[Line]) -> list[int]:
    counts = [line.counts for line in lines]
    return [capped(sum(count[place] for count in counts)) for place in range(len(COUNTS))]


def _cost(lines: list[Line]) -> int:
    return capped(sum(line.cost or 0 for line in lines))


def _unpriced(lines: list[Line]) -> int:
    return capped(sum(line.unpriced for line in lines))
