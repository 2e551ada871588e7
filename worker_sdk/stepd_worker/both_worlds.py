"""Owns the two faces of a call: written once as a coroutine, called plainly from any thread or awaited as `.aio(…)`."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

P = ParamSpec("P")
T = TypeVar("T")

_END: Final = object()
END_SECONDS: Final = 1.0


class LoopThread:
    """A private event loop on a daemon thread, started by the first call that needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end on the private loop; interrupting the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs what is to be done last, if anything was done at all, and ends the thread; a later call starts another.

        Waits for that only shortly: it may be called as the process ends, or by the garbage collector.
        """
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(lambda: loop.create_task(_end(last)))
        if thread is not threading.current_thread():
            thread.join(END_SECONDS)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="stepd-client", daemon=True)
                self._thread.start()
            return self._loop


class HasLoopThread(Protocol):
    """What a class needs so that its calls have two faces."""

    @property
    def loop_thread(self) -> LoopThread: ...


C = TypeVar("C", bound=HasLoopThread)


class BoundCall(Generic[P, T]):
    """A call of one object: `call(…)` blocks and returns the answer, `call.aio(…)` is awaited for it."""

    def __init__(self, owner: HasLoopThread, function: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self._owner = owner
        self.aio = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._owner.loop_thread.run(self.aio(*args, **kwargs))


class BoundStream(Generic[P, T]):
    """A stream of one object: `for … in stream(…)` blocks, `async for … in stream.aio(…)` awaits."""

    def __init__(self, owner: HasLoopThread, function: Callable[P, AsyncGenerator[T, None]]) -> None:
        self._owner = owner
        self.aio = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        run = self._owner.loop_thread.run
        items = self.aio(*args, **kwargs)
        try:
            while (item := run(_next(items))) is not _END:
                yield cast("T", item)
        finally:
            run(items.aclose())


class call(Generic[C, P, T]):  # noqa: N801 (it is used as a decorator)
    """Gives a method written as a coroutine its two faces."""

    def __init__(self, function: Callable[Concatenate[C, P], Coroutine[Any, Any, T]]) -> None:
        self.__wrapped__ = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[C]) -> Self: ...
    @overload
    def __get__(self, instance: C, owner: type[C]) -> BoundCall[P, T]: ...
    def __get__(self, instance: C | None, owner: type[C]) -> "Self | BoundCall[P, T]":
        if instance is None:
            return self
        return BoundCall(instance, self.__wrapped__.__get__(instance, owner))


class stream(Generic[C, P, T]):  # noqa: N801 (it is used as a decorator)
    """Gives a method written as an asynchronous generator its two faces."""

    def __init__(self, function: Callable[Concatenate[C, P], AsyncGenerator[T, None]]) -> None:
        self.__wrapped__ = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[C]) -> Self: ...
    @overload
    def __get__(self, instance: C, owner: type[C]) -> BoundStream[P, T]: ...
    def __get__(self, instance: C | None, owner: type[C]) -> "Self | BoundStream[P, T]":
        if instance is None:
            return self
        return BoundStream(instance, self.__wrapped__.__get__(instance, owner))


async def _next(items: AsyncGenerator[T, None]) -> T | object:
    return await anext(items, _END)


async def _end(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await last()
    finally:
        asyncio.get_running_loop().stop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
