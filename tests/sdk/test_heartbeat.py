"""The heartbeats against a scripted daemon, by a clock that the test moves: when they are sent, what answers do."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stepd_protocol.leases import Lease, Span
from stepd_worker import Cancelled
from stepd_worker.heartbeat import Heartbeats
from stepd_worker.held import Held
from stepd_worker.timing import PROTOCOL
from stepd_worker.transport import Answer, Endpoint
from tests.sdk.peer import DROPPED, Peer, Reply, lease, problem, refused


def dealt(lease_id: str = "l-1", **changes: Any) -> Lease:
    """A lease as a worker reads it."""
    return msgspec.json.decode(msgspec.json.encode(lease(lease_id, **changes)), type=Lease)


class Beating:
    """Heartbeats whose thread is the test, and whose clock stands until it is moved."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.now = 1000.0
        self.refused_keys: list[Answer] = []
        self.heartbeats = Heartbeats(
            Endpoint(peer.url),
            self.refused_keys.append,
            PROTOCOL,
            clock=lambda: self.now,
            uniform=lambda low, high: 1.0,
        )

    def hold(self, lease_id: str = "l-1", **changes: Any) -> Held:
        held = Held(dealt(lease_id, **changes), self.now)
        self.heartbeats.add(held)
        return held

    def pass_seconds(self, seconds: float) -> None:
        """Lets time pass, as the thread would: from one thing to do to the next."""
        end = self.now + seconds
        while True:
            delay = self.heartbeats.run_once()
            if self.now + delay > end:
                self.now = end
                return
            self.now += delay

    @property
    def beats(self) -> list[dict[str, Any]]:
        return [call.body for call in self.peer.named("heartbeat")]


@pytest.fixture
def beating(peer: Peer) -> Iterator[Beating]:
    beating = Beating(peer)
    yield beating
    beating.heartbeats._connection.close()


OK = {"expires_at": "2026-11-30T12:00:30.000Z", "lease_seconds": 30, "cancel": None, "warnings": []}


def test_a_lease_is_renewed_every_heartbeat_seconds(beating: Beating) -> None:
    held = beating.hold()
    beating.pass_seconds(9)
    assert beating.beats == []
    beating.pass_seconds(22)
    assert beating.beats == [{"fence": 3, "started": False}] * 3
    assert held.lapses_at == 1030 + 30
    assert not held.cancellation.is_set()


def test_each_lease_has_its_own_time(beating: Beating) -> None:
    beating.hold("l-1")
    beating.pass_seconds(4)
    beating.hold("l-2", heartbeat_seconds=2)
    beating.pass_seconds(7)
    assert [call.path.split("/")[3] for call in beating.peer.named("heartbeat")] == ["l-2", "l-2", "l-1", "l-2"]


def test_a_lease_that_was_removed_is_left_alone(beating: Beating) -> None:
    beating.heartbeats.remove(beating.hold())
    beating.pass_seconds(100)
    assert beating.beats == []


def test_a_beat_without_answer_is_sent_again_soon_with_backoff(beating: Beating) -> None:
    beating.peer.script("heartbeat", DROPPED, Reply(503), problem(429, "too_busy"))
    held = beating.hold()
    beating.pass_seconds(10 + 0.5 + 1)
    assert len(beating.beats) == 3
    beating.pass_seconds(2)
    assert len(beating.beats) == 4
    assert held.lapses_at == 1000 + 10 + 0.5 + 1 + 2 + 30


def test_retry_after_is_obeyed(beating: Beating) -> None:
    beating.peer.script("heartbeat", Reply(503, headers={"Retry-After": "4"}))
    beating.hold()
    beating.pass_seconds(13.9)
    assert len(beating.beats) == 1
    beating.pass_seconds(0.2)
    assert len(beating.beats) == 2


def test_without_any_answer_the_body_goes_on_until_the_step_can_have_been_taken_back(beating: Beating) -> None:
    beating.peer.always("heartbeat", Reply(503))
    held = beating.hold()
    beating.pass_seconds(44.9)
    assert not held.cancellation.is_set()
    beating.pass_seconds(0.2)
    assert (held.over, held.cancellation.reason) == ("lease_lost", "lease_lost")
    sent = len(beating.beats)
    beating.pass_seconds(60)
    assert len(beating.beats) == sent


def test_the_clock_counts_from_the_send_and_what_the_daemon_held(peer: Peer) -> None:
    held = Held(dealt(timeout_seconds=100), 1000, held_seconds=12)
    assert (held.beat_at, held.lapses_at, held.lost_at, held.times_out_at) == (1022, 1042, 1057, 1112)


def test_an_answer_late_in_the_daemon_outage_renews_the_lease(beating: Beating) -> None:
    beating.peer.always("heartbeat", Reply(503))
    held = beating.hold()
    beating.pass_seconds(35)
    beating.peer.scripts.clear()
    beating.pass_seconds(9)
    assert held.lapses_at > 1060
    assert held.over is None


def test_a_wish_to_stop_asks_the_body_and_beats_on(beating: Beating) -> None:
    beating.peer.always("heartbeat", Reply(200, OK | {"cancel": {"reason": "enough"}}))
    held = beating.hold()
    beating.pass_seconds(21)
    assert held.cancellation.reason == "cancel_requested"
    assert held.over is None
    assert len(beating.beats) == 2


@pytest.mark.parametrize(
    ("reply", "over", "reason"),
    [
        (refused("already_settled"), "already_settled", "lease_lost"),
        (refused("execution_ended", execution={"id": "e", "status": "failed"}), "execution_ended", "execution_ended"),
        (refused("lease_lost"), "lease_lost", "lease_lost"),
        (refused("a_reason_of_later"), "lease_lost", "lease_lost"),
        (problem(404, "not_found"), "lease_lost", "lease_lost"),
    ],
)
def test_an_attempt_that_is_over_stops_body_and_beats(beating: Beating, reply: Reply, over: str, reason: str) -> None:
    beating.peer.always("heartbeat", reply)
    held, stops = beating.hold(), []
    held.stop_body = lambda: stops.append(held.cancellation.reason)
    beating.pass_seconds(30)
    assert (held.over, held.cancellation.reason) == (over, reason)
    assert len(beating.beats) == 1
    assert stops == [reason]


def test_lease_expired_ends_the_beats_and_leaves_the_rest_of_the_time(beating: Beating) -> None:
    beating.peer.always("heartbeat", refused("lease_expired", reclaim_seconds=6))
    held = beating.hold()
    beating.pass_seconds(15.9)
    assert not held.cancellation.is_set()
    beating.pass_seconds(0.2)
    assert held.over == "lease_lost"
    assert len(beating.beats) == 1


def test_a_refused_key_is_told_and_beaten_with_every_ten_seconds(beating: Beating) -> None:
    beating.peer.always("heartbeat", problem(401, "unauthenticated"))
    beating.hold()
    beating.pass_seconds(31)
    assert len(beating.beats) == 3
    assert [answer.status for answer in beating.refused_keys] == [401, 401, 401]


def test_a_refused_beat_is_sent_without_its_telemetry(beating: Beating) -> None:
    beating.peer.script("heartbeat", problem(413, "payload_too_large"))
    held = beating.hold()
    held.progress = b'{"done":1}'
    beating.pass_seconds(11)
    assert beating.beats == [
        {"fence": 3, "started": False, "progress": {"done": 1}},
        {"fence": 3, "started": False},
    ]
    assert held.lapses_at == 1040


def test_progress_usage_and_spans_ride_along_once(beating: Beating) -> None:
    held = beating.hold()
    held.progress = b'{"done":1}'
    held.spans.add(Span(span_id="0" * 15 + "1", name="call", start_unix_nano="1", end_unix_nano="2"))
    beating.pass_seconds(21)
    first, second = beating.beats
    assert first["progress"] == {"done": 1}
    assert [span["name"] for span in first["spans"]] == ["call"]
    assert second == {"fence": 3, "started": False}


def test_time_out_stops_the_body_and_asks_for_the_daemons_word(beating: Beating) -> None:
    held = beating.hold(timeout_seconds=5)
    beating.pass_seconds(4.9)
    assert not held.cancellation.is_set()
    beating.pass_seconds(2.2)
    assert (held.timed_out, held.cancellation.reason, held.over) == (True, "lease_lost", None)
    assert len(beating.beats) == 3


def test_a_start_is_sent_at_once_and_stays_said(beating: Beating) -> None:
    held = beating.hold(start_required=True)
    ticket = held.want_start()
    assert not ticket.done()
    beating.pass_seconds(0.1)
    assert ticket.result(0) is None
    beating.pass_seconds(10)
    assert beating.beats == [{"fence": 3, "started": True}] * 2
    assert held.started


def test_a_start_that_is_answered_with_a_wish_to_stop_must_not_begin(beating: Beating) -> None:
    beating.peer.always("heartbeat", Reply(200, OK | {"cancel": {"reason": "enough"}}))
    held = beating.hold(start_required=True)
    ticket = held.want_start()
    beating.pass_seconds(0.1)
    with pytest.raises(Cancelled, match="cancel_requested"):
        ticket.result(0)
    assert not held.started


def test_a_start_without_answer_is_given_up_when_the_lease_has_lapsed(beating: Beating) -> None:
    beating.peer.always("heartbeat", DROPPED)
    held = beating.hold(start_required=True)
    ticket = held.want_start()
    beating.pass_seconds(29.9)
    assert not ticket.done()
    beating.pass_seconds(0.2)
    with pytest.raises(Cancelled, match="lease_lost"):
        ticket.result(0)
    assert held.over is None


def test_a_network_that_is_back_shortly_before_the_lapse_saves_the_lease(beating: Beating) -> None:
    beating.peer.scripts.append(lambda call: DROPPED if beating.now < 1029 else None)
    held = beating.hold()
    beating.pass_seconds(31)
    assert held.lapses_at > 1058
    assert len(beating.beats) < 15


def test_telemetry_that_cannot_be_sent_costs_no_beat_of_any_lease(beating: Beating) -> None:
    held, other = beating.hold("l-1"), beating.hold("l-2")
    held.usage = {"m-1": object()}  # type: ignore[dict-item]  # as a body might
    held.progress = b"x" * 100_000
    beating.pass_seconds(21)
    assert [call.path.split("/")[3] for call in beating.peer.named("heartbeat")] == ["l-1", "l-2", "l-1", "l-2"]
    assert {frozenset(beat) for beat in beating.beats} == {frozenset({"fence", "started"})}
    assert held.lapses_at == other.lapses_at


def test_a_start_that_nobody_waits_for_any_more_is_not_said(beating: Beating) -> None:
    beating.peer.script("heartbeat", DROPPED)
    held = beating.hold(start_required=True)
    ticket = held.want_start()
    beating.pass_seconds(0.1)
    ticket.cancel()
    beating.pass_seconds(20)
    assert [beat["started"] for beat in beating.beats] == [True, False, False]
    assert not held.started


def test_a_body_that_does_not_stop_is_reported_again_and_again(
    beating: Beating, caplog: pytest.LogCaptureFixture
) -> None:
    beating.peer.always("heartbeat", refused("lease_lost"))
    held = beating.hold()
    held.running = True
    beating.pass_seconds(10 + 29)
    assert caplog.messages == []
    beating.pass_seconds(100)
    reports = [message for message in caplog.messages if "its slot stays taken" in message]
    assert [int(report.split(" s after")[0].rpartition(" ")[2]) for report in reports] == [30, 60, 120]
    assert "'work'" in reports[0]
    assert "lease_lost" in reports[0]


def test_an_answer_for_a_lease_that_is_settled_by_now_means_nothing(beating: Beating) -> None:
    held = beating.hold()

    def settle_meanwhile(call: object) -> Reply:
        beating.heartbeats.remove(held)
        return refused("already_settled")

    beating.peer.scripts.append(settle_meanwhile)
    beating.pass_seconds(10)
    assert len(beating.beats) == 1
    assert held.over is None
    assert not held.cancellation.is_set()
