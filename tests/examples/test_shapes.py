"""The shapes that users bring from elsewhere: each runs against a real daemon, well and badly."""

from collections.abc import Iterator
from typing import Any

import pytest

from examples.agent.mind import REASONING_TOKENS
from examples.agent.worker import agent, turn
from examples.batch.worker import nightly
from examples.devices.worker import provisioning
from examples.documents.worker import documents
from examples.order.outside import bank, carrier, warehouse
from examples.order.worker import order
from stepd_worker import ApiError, Client
from tests.sdk.served import serving
from tests.support.daemon import running
from tests.support.wait import eventually

SECONDS = 30.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A real daemon, and one worker with all the bodies."""
    with (
        running(tmp_path_factory.mktemp("shapes") / "stepd.db") as daemon,
        Client(daemon.url) as client,
        serving(client, order, documents, turn, agent, nightly, provisioning, concurrency=32),
    ):
        yield client


def ended(client: Client, started: dict[str, Any]) -> dict[str, Any]:
    return client.wait(started["id"], timeout_seconds=SECONDS)


def statuses(view: dict[str, Any]) -> dict[str, str]:
    return {step["id"]: step["status"] for step in view["steps"]}


def standing(view: dict[str, Any]) -> list[int]:
    """How many things of an order stand outside: reservations, charges, parcels."""
    return [len(service.standing(view["id"])) for service in (warehouse, bank, carrier)]


def test_an_order_is_paid_and_sent(client: Client) -> None:
    view = ended(client, client.start("order", {"card": "4711", "items": ["lamp", "bulb"]}))
    assert (view["status"], view["outcome"]) == ("completed", "sent")
    assert standing(view) == [1, 1, 1]
    assert bank.standing(view["id"]) == [{"card": "4711", "cents": 2_000}]
    assert statuses(view)["give-back"] == "skipped"


def test_a_declined_card_leaves_nothing_reserved(client: Client) -> None:
    view = ended(client, client.start("order", {"card": "0000", "items": ["lamp"]}))
    assert (view["status"], view["outcome"]) == ("completed", "declined")
    assert standing(view) == [0, 0, 0]
    assert (statuses(view)["ship"], statuses(view)["give-back"]) == ("skipped", "succeeded")


def test_an_order_that_cannot_be_sent_is_undone_the_latest_first(client: Client) -> None:
    view = ended(client, client.start("order", {"card": "4711", "items": ["lamp"], "country": "XX"}))
    assert (view["status"], view["error"]["class"]) == ("failed", "no_carrier")
    assert standing(view) == [0, 0, 0]
    assert view["standing_writes"] == []
    undone = [event["step"] for event in client.events(view["id"]) if event["type"] == "step.compensating"]
    assert undone == ["pay", "reserve"]


def test_a_document_that_is_clear_needs_nobody(client: Client) -> None:
    view = ended(client, client.start("documents", {"name": "d-1", "text": "a b\fc\fd e f"}))
    assert view["output"] == {"filed": "d-1", "words": 6}
    assert view["state"] == {"reviewed_by": "nobody"}


@pytest.mark.parametrize("accept", [True, False])
def test_a_document_that_is_unsure_is_looked_at(client: Client, accept: bool) -> None:
    correlation = f"unsure-{accept}"
    started = client.start("documents", {"name": "d-2", "text": "smudged\f \fc"}, correlation=correlation)
    review = {"by": "ann", "accept": accept}
    assert client.publish("review", correlation, review) == {"delivered": 1}
    view = ended(client, started)
    assert view["status"] == "completed"
    assert view["output"] == ({"filed": "d-2", "words": 2} if accept else None)
    assert view["state"] == {"reviewed_by": "ann"}


def test_an_agent_goes_round_until_it_is_done(client: Client) -> None:
    view = ended(client, client.start("agent", {"task": "add 2 3 4"}))
    assert view["output"] == "9"
    turns = client.list(workflow="agent-turn", limit=10)["items"]
    assert sum(one["usage"]["output_tokens"] > 0 for one in turns) == 4
    # Three wishes for a tool, each with its reasoning; each turn but the first knows some of the talk.
    assert sum(one["usage"]["reasoning_tokens"] for one in turns) == 3 * REASONING_TOKENS
    assert view["usage"]["reasoning_tokens"] == 3 * REASONING_TOKENS
    assert sum(one["usage"]["cache_read_tokens"] > 0 for one in turns) == 3


def test_an_agent_that_gets_nowhere_gives_up(client: Client) -> None:
    assert ended(client, client.start("agent", {"task": "wander"}))["output"] == "I gave up"


def test_an_agent_that_has_used_up_its_budget_waits_for_a_greater_one(client: Client) -> None:
    started = client.start("agent", {"task": "wander"}, budget={"tokens": 100})
    eventually(
        lambda: client.get(started["id"])["status"] == "paused",
        seconds=SECONDS,
        every=0.05,
        what="the agent to be paused",
    )
    view = client.get(started["id"])
    assert view["paused"]["reason"] == "budget_exceeded"
    with pytest.raises(ApiError, match="not_pausable"):
        client.resume(started["id"])
    client.resume(started["id"], budget={"tokens": 100_000})
    assert ended(client, started)["output"] == "I gave up"


@pytest.mark.parametrize(("approved", "says"), [(True, "everything is deleted"), (False, "A person refused it")])
def test_an_agent_does_what_is_dangerous_only_when_it_may(client: Client, approved: bool, says: str) -> None:
    correlation = f"talk-{approved}"
    started = client.start("agent", {"task": "delete everything"}, correlation=correlation)
    payload = {"approved": approved}

    def answered() -> bool:
        return bool(client.publish("approval", correlation, payload)["delivered"])

    eventually(answered, seconds=SECONDS, every=0.05, what="the turn waits for an approval")
    assert ended(client, started)["output"] == says


@pytest.mark.parametrize("accounts", [200, pytest.param(1_000, marks=pytest.mark.soak)])
def test_a_night_has_a_bill_for_each_account(client: Client, accounts: int) -> None:
    night = {"day": "2026-11-30", "accounts": accounts}
    started = client.start("nightly", night, correlation=f"night-{accounts}")
    with pytest.raises(ApiError, match="occupied"):
        client.start("nightly", night, correlation=f"night-{accounts}")
    view = ended(client, started)
    cents = sum(100 + account % 7 for account in range(accounts) if account % 100 != 99)
    failed = accounts // 100
    assert view["output"] == {"billed": accounts - failed, "failed": failed, "cents": cents}
    assert view["outcome"] == "look"
    assert view["steps"][1]["status"] == "succeeded"


@pytest.mark.parametrize("passed", [True, False])
def test_a_device_is_activated_or_wiped(client: Client, passed: bool) -> None:
    serial = f"device-{passed}"
    started = client.start("provisioning", {"model": "m-2"}, correlation=serial)
    with pytest.raises(ApiError, match="occupied"):
        client.start("provisioning", {"model": "m-2"}, correlation=serial)
    with pytest.raises(ApiError, match="invalid_input"):
        client.signal(started["id"], "device-online", {"no": "address"})
    assert client.publish("device-online", serial, {"address": "10.0.0.7"}) == {"delivered": 1}
    assert client.publish("self-test", serial, {"passed": passed, "message": "too warm"}) == {"delivered": 1}
    view = ended(client, started)
    if passed:
        assert (view["output"], view["state"]) == ({"active": serial}, {"address": "10.0.0.7"})
        assert (statuses(view)["wipe"], statuses(view)["unregister"]) == ("skipped", "skipped")
    else:
        assert (view["status"], view["error"]["class"]) == ("failed", "self_test_failed")
        assert view["error"]["message"] == "too warm"
        assert (statuses(view)["wipe"], statuses(view)["unregister"]) == ("succeeded", "succeeded")
        assert view["standing_writes"] == []
