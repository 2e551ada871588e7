"""What daemons on one database tell each other after a commit: short JSON texts on one channel of PostgreSQL.

They say which executions have new events and that there is work, and nothing of what is in either. Times to come are
not told: whoever made one has its sweeper look then, and all others look often enough should that daemon end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from secrets import token_hex
from typing import Final

import msgspec

from stepd.store.base import Tell
from stepd.store.postgres.connections import Session

EXECUTIONS_PER_NOTICE: Final = 100
"""PostgreSQL takes texts below 8,000 bytes; an entry has at most some 75."""
NOTIFY: Final = "select pg_notify($1, text) from unnest($2::text[]) as text"


class Notice(msgspec.Struct, omit_defaults=True):
    """One text on the channel."""

    by: str
    """Which daemon tells it; its own it has heard already."""
    ready: bool = False
    keys: bool = False
    prices: bool = False
    errands: bool = False
    executions: dict[str, tuple[int, str]] = {}


class Teller:
    """Tells of this daemon's commits: whoever waits in it, and the other daemons."""

    def __init__(self) -> None:
        self.by = token_hex(8)
        self.channel = ""
        """Known once the store is open."""
        self.hear: Callable[[Tell], None] = lambda _tell: None
        """Hears of each commit, this daemon's and others'."""

    async def notify(self, session: Session, tell: Tell) -> None:
        """Tells the others with the commit of the transaction; nothing where there is nothing to tell."""
        if (notice := self.notice(tell)) is not None:
            await session.execute(notice[0], *notice[1])

    def notice(self, tell: Tell) -> tuple[str, list[object]] | None:
        """The statement that tells the others with the commit, and its parameters; None where there is nothing."""
        texts: list[object] = list(_texts(self.by, tell))
        return (NOTIFY, [self.channel, texts]) if texts else None

    def tell(self, tell: Tell) -> None:
        """Tells who waits here."""
        self.hear(tell)

    def tell_everything(self) -> None:
        """Tells who waits here that others may have done anything."""
        self.hear(Tell(ready=True, executions={}, timer=None, keys=True, prices=True, everything=True))

    def told(self, text: str) -> None:
        """Another daemon has told something; this one's own comes back too, and has been heard already."""
        try:
            notice = msgspec.json.decode(text, type=Notice)
        except msgspec.MsgspecError:  # from a version that is not understood
            self.tell_everything()
            return
        if notice.by != self.by:
            self.hear(Tell(notice.ready, notice.executions, None, notice.keys, notice.prices, notice.errands))


def _texts(by: str, tell: Tell) -> Iterator[str]:
    executions = iter(tell.executions.items())
    some = dict(islice(executions, EXECUTIONS_PER_NOTICE))
    if some or tell.ready or tell.keys or tell.prices or tell.errands:
        yield _text(Notice(by, tell.ready, tell.keys, tell.prices, tell.errands, some))
    while some := dict(islice(executions, EXECUTIONS_PER_NOTICE)):
        yield _text(Notice(by, executions=some))


def _text(notice: Notice) -> str:
    return msgspec.json.encode(notice).decode()
