"""Composition root: the only file that knows every part. Puts a daemon together, starts, serves and stops it."""

import asyncio
import gc
import logging
import os
from importlib.metadata import version
from typing import Final

from msgspec import Struct

from stepd.http.app import App
from stepd.http.body import Bounds
from stepd.http.door import Door
from stepd.http.handlers import Served
from stepd.http.openapi import Document
from stepd.http.phase import Phase
from stepd.http.routes import routes_of
from stepd.http.server import log_unawaited, run_server
from stepd.http.sockets import BindRefused, Listening, listen
from stepd.loops.courier import Courier
from stepd.loops.lag import Lag
from stepd.loops.pulse import Pulse
from stepd.loops.recovery import recover
from stepd.loops.retention import Retention
from stepd.loops.runner import Loop, Outage, run_loop
from stepd.loops.sweeper import Sweeper
from stepd.observing import Observing, Watching
from stepd.service.base import Daemon
from stepd.service.directory import Directory
from stepd.service.dispatcher import Dispatcher
from stepd.service.entering import NoAdminKey, enter_keys
from stepd.service.keyring import Keyring
from stepd.service.prices import Prices
from stepd.service.watch import Watch
from stepd.settings import Settings
from stepd.signals import FORCED_EXIT, StopSignals
from stepd.starting import StartRefused, StopAsked, check_certificate, make_store, share_settings, until_available
from stepd.store.base import Store, StoreRefused, StoreUnavailable, Tell
from stepd.store.postgres.address import without_secrets
from stepd.telemetry.logs import set_up_logs
from stepd.telemetry.metrics import Metrics
from stepd.telemetry.tracing import make_exports
from stepd.ui.routes import pages_of
from stepd.ui.web import refusal_page

DRAIN_LOOK_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


class Parts(Struct):
    """A daemon that is ready to serve."""

    daemon: Daemon
    phase: Phase
    app: App
    listening: Listening
    loops: list[Loop]
    watching: Watching
    is_open: bool


def run(settings: Settings) -> int:
    """Runs a daemon until it is asked to stop; answers the process's exit status. Raises StartRefused."""
    set_up_logs(settings.log_format, settings.log_level)
    # The one line that tells a person where to go is not left out.
    _log.setLevel(logging.INFO)
    return asyncio.run(_run(settings))


async def _run(settings: Settings) -> int:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: log_unawaited(context))
    check_certificate(settings)
    store = make_store(settings)
    with StopSignals() as signals:
        try:
            listening = listen(settings.bind)
        except BindRefused as refusal:
            raise StartRefused(str(refusal)) from None
        try:
            try:
                await _open(store, signals)
                parts = await _start(settings, store, listening, signals)
                return await _serve(parts, signals)
            except StopAsked:
                return 0
            finally:
                await store.close()
        finally:
            listening.socket.close()


async def _open(store: Store, signals: StopSignals) -> None:
    """Raises StartRefused, StopAsked."""
    try:
        await until_available(signals, "opening the database", store.open)
    except StoreRefused as refusal:
        raise StartRefused(str(refusal)) from refusal


async def _start(settings: Settings, store: Store, listening: Listening, signals: StopSignals) -> Parts:
    """Everything up to serving: keys, grace, what was found open. Raises StartRefused, StopAsked."""
    keyring = Keyring(store)
    dispatcher, watch, directory = Dispatcher(store, keyring.may_claim), Watch(keyring.is_good), Directory(store)
    keyring.lessened = lambda: _dismiss(keyring, dispatcher, watch)
    try:
        await until_available(signals, "keys", lambda: enter_keys(store, settings.keys))
    except NoAdminKey as refusal:
        raise StartRefused(str(refusal)) from None
    await until_available(signals, "keys", keyring.refresh)
    if not keyring.ever and not listening.is_loopback:
        raise StartRefused(_needs_keys(settings.bind))
    service = await until_available(signals, "service", store.service)
    name = await until_available(signals, "settings", lambda: share_settings(store, settings))
    prices = Prices(store)
    await until_available(signals, "prices", prices.refresh)
    pulse = Pulse(store)
    sweeper, courier = Sweeper(store, pulse.catch_up), Courier(store)
    metrics = Metrics()
    watching = Watching(metrics, make_exports(name, metrics, os.environ))
    store.on_commit(lambda tell: _pass_on(tell, dispatcher, watch, sweeper, courier, keyring, prices, watching))
    await until_available(signals, "pulse", pulse.run_once)
    if store.alone:
        await until_available(signals, "recovery", lambda: recover(store))
    await until_available(signals, "other daemons", store.admit_others)
    await until_available(signals, "workers", directory.load)
    daemon = Daemon(
        settings=settings,
        store=store,
        dispatcher=dispatcher,
        watch=watch,
        directory=directory,
        service_id=service.id,
        service_name=name,
        keyring=keyring,
        telemetry=watching,
        prices=prices,
    )
    phase = Phase()
    observing = Observing(daemon, pulse, phase, watching)
    door = Door(keyring, loopback=listening.is_loopback)
    app = App(
        (*routes_of(settings), *pages_of(settings)),
        Served(daemon, observing.not_ready, observing.measure, Document()),
        door=door,
        phase=phase,
        bounds=Bounds(settings.limits.request_bytes),
        hooks=observing,
        refusal_page=refusal_page if settings.ui else None,
    )
    loops: list[Loop] = [pulse, keyring, prices, Lag(watching.metrics.lag.observe)]
    if settings.loops:
        loops += [sweeper, courier, Retention(store)]
    return Parts(daemon, phase, app, listening, loops, watching, door.is_open)


async def _serve(parts: Parts, signals: StopSignals) -> int:
    """Serves until a signal comes, drains, and closes; answers the exit status."""
    told, outage = parts.watching.round_over, Outage()
    loops = [asyncio.create_task(run_loop(loop, told, outage), name=loop.name) for loop in parts.loops]
    settings = parts.daemon.settings
    server = asyncio.create_task(
        run_server(parts.app, parts.listening, parts.phase, settings.tls_certificate, settings.tls_key)
    )
    asked = asyncio.create_task(signals.asked.wait())
    # What was made up to here lives as long as the process: the collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    _announce(parts)
    try:
        await asyncio.wait({server, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not server.done():
            await _drain(parts, signals)
            parts.phase.close()
        forced = asyncio.create_task(signals.forced.wait())
        await asyncio.wait({server, forced}, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
    finally:
        for task in (*loops, asked, server):
            task.cancel()
        await asyncio.gather(*loops, asked, server, return_exceptions=True)
    if not server.cancelled() and (error := server.exception()) is not None:
        raise error
    if parts.watching.exports is not None and not signals.forced.is_set():
        await parts.watching.exports.stop()
    await _say_goodbye(parts)
    return FORCED_EXIT if signals.forced.is_set() else 0


async def _drain(parts: Parts, signals: StopSignals) -> None:
    """Takes no new work, and outcomes until none is due any more, the time is over, or a second signal comes.

    Leases that other daemons hand out meanwhile are not waited for. From when on is asked after the first look, when
    what was being handed out here has been.
    """
    _log.info("stopping: taking outcomes for up to %g s", parts.daemon.settings.drain_seconds)
    parts.phase.drain()
    parts.daemon.dispatcher.stop()
    parts.daemon.watch.stop()
    deadline = asyncio.get_running_loop().time() + parts.daemon.settings.drain_seconds
    until: int | None = None
    while asyncio.get_running_loop().time() < deadline and not signals.forced.is_set():
        if not await _leases_in_flight(parts.daemon.store, until):
            return
        try:
            async with asyncio.timeout(DRAIN_LOOK_SECONDS):
                await signals.forced.wait()
        except TimeoutError:
            pass
        if until is None:
            until = await _now(parts.daemon.store)


async def _leases_in_flight(store: Store, until: int | None) -> int:
    """How many outcomes of leases up to then are still to come; one at least where the store can't tell."""
    try:
        return sum((await store.held_leases(until=until)).values())
    except StoreUnavailable:
        return 1


async def _now(store: Store) -> int | None:
    """The store's time (ms); None where it can't tell."""
    try:
        return await store.now()
    except StoreUnavailable:
        return None


async def _say_goodbye(parts: Parts) -> None:
    try:
        await parts.daemon.directory.flush()
    except StoreUnavailable:
        _log.warning("stopped while the store is away")
    else:
        _log.info("stopped")


def _pass_on(
    tell: Tell,
    dispatcher: Dispatcher,
    watch: Watch,
    sweeper: Sweeper,
    courier: Courier,
    keyring: Keyring,
    prices: Prices,
    watching: Watching,
) -> None:
    """A commit is known to those who wait for it, and to who counts."""
    if tell.ready or tell.everything:
        dispatcher.wake()
    if tell.executions or tell.everything:
        watch.tell(tell)
    if tell.timer is not None:
        sweeper.expect(tell.timer)
    if tell.errands or tell.everything:
        courier.wake.set()
    if tell.keys or tell.everything:
        keyring.wake.set()
    if tell.prices or tell.everything:
        prices.wake.set()
    watching.committed(tell)


def _dismiss(keyring: Keyring, dispatcher: Dispatcher, watch: Watch) -> None:
    """Whoever waits and may not any more is answered."""
    dispatcher.drop(lambda caller: not keyring.may_claim(caller))
    watch.drop(lambda caller: not keyring.is_good(caller))


def _announce(parts: Parts) -> None:
    settings = parts.daemon.settings
    scheme = "https" if settings.tls_certificate else "http"
    who = "open mode: without keys, for this machine only" if parts.is_open else "with keys"
    _log.info(
        "stepd %s listens on %s://%s, database %s, %s",
        version("stepd"),
        scheme,
        parts.listening.authority,
        without_secrets(settings.database),
        who,
    )


def _needs_keys(bind: str) -> str:
    return (
        f"--bind {bind}: without keys the daemon listens on a loopback address only, since it would serve everybody. "
        "Give it a key, for example STEPD_ADMIN_KEYS=ops=$(openssl rand -hex 32), or --bind 127.0.0.1:7117."
    )
