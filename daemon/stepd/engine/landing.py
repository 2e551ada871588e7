"""How spans land that come outside of a lease's calls: under their attempt, whatever became of it, or under none.

They change what was used, and nothing else: no status and no event. So they land also after the attempt was settled or
the execution has ended.
"""

from __future__ import annotations

from stepd.engine.commands import NotFound
from stepd.engine.landings import DropLoose, KeepLoose, Landed, LandSpans
from stepd.engine.model import SpanRow
from stepd.engine.reports import take_report
from stepd.engine.work import Work


def land(work: Work, command: LandSpans) -> Landed | NotFound:
    """Takes the spans as a heartbeat would; NotFound where the attempt isn't this principal's."""
    attempt = work.attempt(command.attempt_id)
    if attempt is None or attempt.principal != command.principal:
        return NotFound()
    take_report(work, work.change_attempt(attempt.id), command.reported)
    work.changes.dropped_spans += command.loose
    fresh = frozenset(row.span_id for row in work.changes.spans if row.fresh)
    for row in work.changes.spans:
        row.fresh = False  # whoever sent them tells of them as they came
    taken = {row.span_id for row in work.changes.spans}
    return Landed(fresh, frozenset(span.span_id for span in command.reported.spans) - taken)


def keep_loose(work: Work, command: KeepLoose) -> Landed:
    """Keeps the spans until it is known whose they are."""
    work.changes.spans += [SpanRow(key, span.span_id, span.body, fresh=False) for key, span in command.spans]
    return Landed(frozenset(span.span_id for _, span in command.spans))


def drop_loose(work: Work, command: DropLoose) -> Landed:
    """Forgets them here."""
    work.changes.dropped_spans += command.spans
    return Landed(frozenset())
