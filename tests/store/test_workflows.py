"""Registered versions: what stands, what is current, what is open on them."""

from __future__ import annotations

from stepd.engine.model import Audit
from stepd.store.base import Scope, UnknownWorkflow
from tests.store.shop import EVERYTHING, NOON, Shop, compiled, step

SAID = Audit(NOON, "boss", None, "workflow.current", "flow", None, None, "done")


async def test_a_new_version_is_kept_and_becomes_current(shop: Shop) -> None:
    definition = compiled(version="1")
    row, new, current = await shop.store.register(definition, SAID)
    assert (row.workflow, row.version, row.digest, row.definition) == ("flow", "1", definition.digest, definition.raw)
    assert (new, current, row.registered_at) == (True, "1", NOON)
    assert [line[0] for line in shop.backend.query("select action from audit")] == ["workflow.current"]


async def test_the_same_again_changes_nothing(shop: Shop) -> None:
    first, *_ = await shop.store.register(compiled(version="1"), None)
    await shop.register(version="2")
    shop.clock.at += 1000
    assert await shop.store.register(compiled(version="1"), None) == (first, False, "2")


async def test_another_definition_under_a_version_that_stands_is_answered_with_the_one_that_stands(shop: Shop) -> None:
    await shop.register(version="1")
    other = compiled(version="1", steps=[step("another")])
    row, new, _ = await shop.store.register(other, None)
    assert not new
    assert row.digest != other.digest
    kept = await shop.store.definition("flow", "1")
    assert kept is not None
    assert kept.digest == row.digest


async def test_the_version_registered_first_last_is_current_until_another_is_chosen(shop: Shop) -> None:
    await shop.register(version="1")
    await shop.register(version="2")
    assert (await shop.view(await shop.start())).execution.version == "2"
    assert await shop.store.make_current("flow", "1", SAID)
    await shop.register(version="3")
    assert (await shop.view(await shop.start())).execution.version == "1"
    assert (await shop.view(await shop.start(version="3"))).execution.version == "3"
    (row,) = await shop.store.workflows("flow", EVERYTHING)
    assert (row.current, [version.version for version in row.versions]) == ("1", ["1", "2", "3"])


async def test_a_version_that_is_not_there_can_not_be_made_current(shop: Shop) -> None:
    await shop.register(version="1")
    assert not await shop.store.make_current("flow", "2", SAID)
    assert not await shop.store.make_current("other", "1", SAID)
    assert shop.backend.query("select * from audit") == []


async def test_a_workflow_or_version_that_is_not_there_can_not_be_started(shop: Shop) -> None:
    assert isinstance(await shop.try_start(), UnknownWorkflow)
    await shop.register(version="1")
    assert isinstance(await shop.try_start(version="2"), UnknownWorkflow)
    assert await shop.store.definition("flow", "2") is None


async def test_definitions_are_compiled_again_by_a_daemon_that_starts(shop: Shop) -> None:
    definition = await shop.register(version="1")
    await shop.reopen()
    found = await shop.store.definition("flow", "1")
    assert found is not None
    assert (found.digest, found.raw) == (definition.digest, definition.raw)
    assert await shop.run_to_end()


async def test_open_executions_are_counted_by_version_and_scope(shop: Shop) -> None:
    await shop.register(version="1")
    await shop.register(name="other", version="1")
    await shop.run_to_end()
    await shop.start(tenant="a", principal="p")
    await shop.start(tenant="b", principal="q")
    await shop.register(version="2")
    await shop.start(tenant="a", principal="q")
    rows = {row.name: row.open_executions for row in await shop.store.workflows(None, EVERYTHING)}
    assert rows == {"flow": {"1": 2, "2": 1}, "other": {}}
    for scope, counts in (
        (Scope(("a",)), {"1": 1, "2": 1}),
        (Scope(None, "q"), {"1": 1, "2": 1}),
        (Scope(("b",), "p"), {}),
        (Scope(()), {}),
    ):
        (row,) = await shop.store.workflows("flow", scope)
        assert row.open_executions == counts, scope
