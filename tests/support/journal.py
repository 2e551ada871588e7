"""Reading an execution's journal, with the checks that hold for every journal at any time."""

from tests.support.client import Http, Json

TYPES = frozenset(
    {
        *(
            f"execution.{name}"
            for name in (
                "created started waiting paused unpaused cancel_requested cancelling failing completed failed "
                "cancelled reconciliation_required resolved recovered"
            ).split()
        ),
        *(
            f"step.{name}"
            for name in (
                "queued skipped succeeded failed caught retry_scheduled uncertain held cancelled compensating"
            ).split()
        ),
        *(f"attempt.{name}" for name in "leased started orphaned late lost requeued failed stale_outcome".split()),
        *("signal.received", "wait.armed", "wait.resumed", "wait.timed_out", "timer.fired", "decision.made"),
        *("child.started", "child.ended"),
    }
)
LAST = frozenset({"execution.completed", "execution.failed", "execution.cancelled"})
FIELDS = frozenset({"seq", "at", "type", "step", "index", "attempt", "worker", "data"})


def read(http: Http, execution: str) -> list[Json]:
    """All events of an execution, over all pages."""
    events: list[Json] = []
    after = 0
    while True:
        page = http.get(f"/v1/executions/{execution}/events", query={"after": after}).expect(200)
        events += page["items"]
        if page["next"] is None or not page["items"]:
            return events
        after = page["next"]


def checked(http: Http, execution: str) -> list[Json]:
    """All events of an execution; fails where the journal breaks a rule that holds for every journal."""
    events = read(http, execution)
    check(events)
    return events


def check(events: list[Json]) -> None:
    """Fails on a gap, an unknown type, a missing field, a second end, or anything after the end."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), f"gaps: {events}"
    assert events[0]["type"] == "execution.created"
    for event in events:
        assert event["type"] in TYPES, f"no such event: {event}"
        assert event.keys() >= FIELDS, f"fields missing: {event}"
        assert "fence" not in (event["data"] or {}), f"a fence in the journal: {event}"
    ends = [event["seq"] for event in events if event["type"] in LAST]
    assert ends in ([], [len(events)]), f"the end must be one, and last: {[event['type'] for event in events]}"
