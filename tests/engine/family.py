"""Drives several executions that stand above and below each other, and carries what they have to tell each other."""

from __future__ import annotations

from typing import Any

from stepd.engine import commands as c
from stepd.engine.children import start_of
from stepd.engine.kinship import news_of
from stepd.engine.model import ENDED, NO_INDEX, input_name
from tests.engine.world import World, compiled


class Family:
    """A root execution and all below it. Each errand is carried by ``carry_one``, when the test says so."""

    def __init__(self, definitions: dict[str, dict[str, Any]], root: str = "parent", **start: Any) -> None:
        self.definitions = {name: compiled(definition, name) for name, definition in definitions.items()}
        self.root = World(definitions[root], **start)
        self.worlds = {self.root.execution.id: self.root}

    @property
    def children(self) -> list[World]:
        """Everything below the root, in the order it was begun."""
        return [world for world in self.worlds.values() if world is not self.root]

    @property
    def child(self) -> World:
        """The one child there is."""
        (child,) = self.children
        return child

    def carry(self) -> None:
        """Carries everything that stands to be carried, and what comes of it."""
        for _ in range(200):
            if not self.carry_one():
                return
        raise AssertionError("the errands never end")

    def carry_one(self, number: int = 0, *, lose: bool = False) -> bool:
        """Carries one of the errands that stand; with ``lose`` the carrier dies before it can note that it did."""
        errands = self.errands()
        if not errands:
            return False
        world, kind, key = errands[number % len(errands)]
        if kind == "tell":
            self._tell(world, lose)
        elif kind == "start":
            self._start(world, key)
        else:
            self._cancel(world, key, kind, lose)
        return True

    def errands(self) -> list[tuple[World, str, tuple[int, int]]]:
        """Whose errands stand, which, and of which row."""
        found = []
        for world in self.worlds.values():
            found += [(world, row.errand, key) for key, row in world.steps.items() if row.errand is not None]
            if world.execution.news_at is not None:
                found.append((world, "tell", (0, 0)))
        return found

    def pass_time(self, ms: int) -> None:
        """Moves every clock, and sweeps and carries until nothing is due."""
        for world in list(self.worlds.values()):
            world.pass_time(ms)
        self.carry()

    def check(self) -> None:
        """What must hold between parent and child."""
        for world in self.children:
            child = world.execution
            parent = self.worlds[child.parent_id or ""]
            index = NO_INDEX if child.parent_index is None else child.parent_index
            row = parent.steps.get((parent.definition.by_id[child.parent_step or ""], index))
            waits = row is not None and row.child_id == child.id and row.child_open
            assert waits or child.status in ENDED, "an open child that nobody waits for"
            assert waits or child.news_at is None or child.status in ENDED
            if child.status in ENDED and child.news_at is None:
                assert not waits, "its end was told, and its parent waits on"
                assert child.remove_at is not None, "it would be kept for ever"
            if child.news_at is not None and child.status in ENDED:
                assert child.remove_at is None, "it may be removed before its parent has heard"

    def _start(self, world: World, key: tuple[int, int]) -> None:
        row = world.steps[key]
        input_ = world.payloads[input_name(*key) if row.own_input else "input"]
        start, _ = start_of(world.definition, world.execution, row, input_)
        definition = self.definitions.get(start.workflow)
        child = None if definition is None else World.of(definition, start, world.now)
        if definition is None or not isinstance(child, World):
            world.run(c.ChildRefused(*key, start.id, "it can't be"))
            return
        assert start.id not in self.worlds, "the same child is begun twice"
        self.worlds[start.id] = child
        world.run(c.ChildBegun(*key, start.id, definition.name, definition.version))

    def _cancel(self, world: World, key: tuple[int, int], kind: str, lose: bool) -> None:
        child_id = world.steps[key].child_id or ""
        self.worlds[child_id].run(c.Cancel(None, "its parent ends", kind == "force"))
        if not lose:
            world.run(c.ErrandDone(*key, child_id, kind))

    def _tell(self, world: World, lose: bool) -> None:
        news = news_of(world.execution, world.payloads.get("output"))
        self.worlds[world.execution.parent_id or ""].run(news)
        if not lose:
            world.run(c.NewsTaken(news.seq, news.usage_seq))
