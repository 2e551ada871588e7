"""Followers hear of every change between two waits, and end with the daemon or their key."""

import asyncio

from stepd.service.base import Caller
from stepd.service.watch import CHANGES_MAX, Watch
from stepd.store.base import Tell

ME = Caller("me", "key-1", frozenset(), None)


def changed(execution_id: str, seq: int = 1, status: str = "running") -> Tell:
    return Tell(ready=False, executions={execution_id: (seq, status)}, timer=None)


async def test_a_change_before_the_wait_is_not_lost() -> None:
    watch = Watch()
    with watch.follow("e", ME) as follower:
        watch.tell(changed("other"))
        assert not await follower.changed(0)
        watch.tell(changed("e", 3, "completed"))
        assert await follower.changed(5)
        assert (follower.seq, follower.status) == (3, "completed")
        assert not await follower.changed(0)
    assert len(watch) == 0


async def test_an_older_look_does_not_undo_what_was_told() -> None:
    watch = Watch()
    with watch.follow("e", ME) as follower:
        watch.tell(changed("e", 5, "completed"))
        follower.note(3, "running")
        assert (follower.seq, follower.status) == (5, "completed")


async def test_where_anything_may_have_happened_every_follower_has_to_look() -> None:
    watch = Watch()
    with watch.follow("e", ME) as follower:
        watch.tell(changed("e", 5, "running"))
        assert await follower.changed(5)
        watch.tell(Tell(ready=True, executions={}, timer=None, everything=True))
        assert await follower.changed(5)
        assert (follower.seq, follower.status) == (5, None)


async def test_followers_end_with_their_key() -> None:
    watch = Watch()
    with watch.follow("e", ME) as follower, watch.follow("e", Caller("me", "key-2", frozenset(), None)) as other:
        waiting = asyncio.create_task(follower.changed(60))
        await asyncio.sleep(0)
        watch.drop(lambda caller: caller.key_id == "key-1")
        assert not await asyncio.wait_for(waiting, 1)
        assert (follower.ended, other.ended) == (True, False)


async def test_who_follows_after_the_stop_waits_for_nothing() -> None:
    watch = Watch()
    watch.stop()
    with watch.follow("e", ME) as follower:
        assert not await asyncio.wait_for(follower.changed(60), 1)


async def test_who_is_no_caller_any_more_waits_for_nothing() -> None:
    """A key may end between the door and here."""
    watch = Watch(admits=lambda caller: caller.key_id != "key-1")
    with watch.follow("e", ME) as follower, watch.follow("e", Caller("me", "key-2", frozenset(), None)) as other:
        assert not await asyncio.wait_for(follower.changed(60), 1)
        watch.tell(changed("e"))
        assert await asyncio.wait_for(other.changed(60), 1)


async def test_an_onlooker_hears_of_every_execution_between_two_waits() -> None:
    watch = Watch()
    with watch.look_on(ME) as onlooker:
        watch.tell(changed("a"))
        watch.tell(changed("b"))
        assert await onlooker.changes(5) == frozenset({"a", "b"})
        assert await onlooker.changes(0) == frozenset()
        watch.tell(Tell(ready=True, executions={}, timer=None))
        assert await onlooker.changes(0) == frozenset()
        assert (len(watch), watch.streams) == (1, 1)
    assert (len(watch), watch.streams) == (0, 0)


async def test_an_onlooker_is_told_that_any_may_have_changed() -> None:
    watch = Watch()
    with watch.look_on(ME) as onlooker:
        watch.tell(Tell(ready=True, executions={}, timer=None, everything=True))
        assert await onlooker.changes(5) is None
        for number in range(CHANGES_MAX + 1):
            watch.tell(changed(f"e{number}"))
        assert await onlooker.changes(5) is None
        watch.tell(changed("a"))
        assert await onlooker.changes(5) == frozenset({"a"})


async def test_onlookers_end_with_their_key_and_with_the_daemon() -> None:
    watch = Watch()
    other = Caller("other", "key-2", frozenset(), None)
    with watch.look_on(ME) as mine, watch.look_on(other) as theirs:
        watch.drop(lambda caller: caller.key_id == "key-1")
        assert (mine.ended, theirs.ended) == (True, False)
        assert await mine.changes(5) == frozenset()
        watch.stop()
        assert theirs.ended
        with watch.look_on(other) as late:
            assert late.ended
