"""Server-sent events as a client reads them: one after the other, with a time limit on each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from types import TracebackType

from tests.support.client import Http, connect


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a stream, or a comment (then only `comment` is set)."""

    id: str | None = None
    event: str | None = None
    data: str | None = None
    comment: str | None = None


class Stream:
    """A stream that is open; reading raises TimeoutError when nothing comes within `seconds`."""

    def __init__(self, http: Http, path: str, *, headers: Mapping[str, str] | None = None, seconds: float = 10) -> None:
        sent = {"Accept": "text/event-stream"} | ({"Authorization": f"Bearer {http.key}"} if http.key else {})
        self._connection: HTTPConnection = connect(http.url, seconds)
        self._connection.request("GET", path, headers=sent | dict(headers or {}))
        self.response: HTTPResponse = self._connection.getresponse()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[Message]:
        """Messages and comments until the daemon ends the stream."""
        fields: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\r\n")
            if text.startswith(":"):
                yield Message(comment=text[1:].strip())
            elif text:
                name, _, value = text.partition(":")
                value = value.removeprefix(" ")
                fields[name] = f"{fields[name]}\n{value}" if name == "data" and "data" in fields else value
            elif fields:
                if "data" in fields:
                    yield Message(fields.get("id"), fields.get("event"), fields["data"])
                fields = {}

    def messages(self) -> Iterator[Message]:
        """The messages without the comments."""
        return (message for message in self if message.comment is None)
