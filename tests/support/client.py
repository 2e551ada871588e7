"""A plain HTTP client for tests: one request on one connection, one answer, and never a 500."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

Json: TypeAlias = Any
Query: TypeAlias = Mapping[str, Any] | list[tuple[str, str]]

PROBLEM = "application/problem+json"
REASONS = ("already_settled", "execution_ended", "lease_lost", "lease_expired")


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    asked: str

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    def __str__(self) -> str:
        return f"{self.asked} -> {self.status} {self.body[:2000].decode(errors='replace')}"

    def expect(self, *statuses: int) -> Json:
        """The body as JSON (None when empty), after checking that the status is one of these."""
        assert self.status in statuses, f"expected {' or '.join(map(str, statuses))}: {self}"
        return self.json if self.body else None

    def expect_problem(self, status: int, *codes: str) -> Json:
        """The problem in the body, after checking that it is a whole one, with this status and one of these codes."""
        assert self.status == status, f"expected {status} {' or '.join(codes)}: {self}"
        assert self.headers.get("content-type", "").split(";")[0] == PROBLEM, f"{self.headers} of {self}"
        found = self.json
        assert found["code"] in codes, f"expected {' or '.join(codes)}: {self}"
        assert found["type"] == f"urn:stepd:problem:{found['code']}", str(self)
        assert found["status"] == status, str(self)
        assert isinstance(found["title"], str), str(self)
        assert found["title"], str(self)
        assert isinstance(found["detail"], str), str(self)
        assert found["detail"], str(self)
        return found

    def expect_refusal(self, reason: str) -> Json:
        """The 409 that refuses a worker call, after checking that it gives this reason."""
        found = self.expect_problem(409, "lease_refused")
        assert found["reason"] in REASONS, str(self)
        assert found["reason"] == reason, f"expected {reason}: {self}"
        assert "fence" not in found, str(self)
        return found

    def expect_faults(self, status: int, *codes: str) -> dict[str, str]:
        """The field faults of a problem, by JSON Pointer."""
        found = self.expect_problem(status, *codes)
        assert found.get("errors"), f"no errors named: {self}"
        for error in found["errors"]:
            assert error["message"], str(self)
            assert error["path"] == "" or error["path"].startswith("/"), f"no JSON Pointer: {self}"
        return {error["path"]: error["message"] for error in found["errors"]}


@dataclass(frozen=True, slots=True)
class Http:
    """Requests to one daemon, with one key or none; every request has a connection of its own."""

    url: str
    key: str | None = None

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        raw: bytes | Iterable[bytes] | None = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 75,
    ) -> Answer:
        """One request. `body` is sent as compact JSON, `raw` as it is; `timeout` is in seconds.

        Raises OSError or HTTPException when the daemon can't be reached or goes away.
        """
        target = path + (f"?{urlencode(query)}" if query else "")
        content, sent = self._encode(body, raw, headers or {})
        connection = connect(self.url, timeout)
        try:
            connection.request(method, target, content, sent)
            with connection.getresponse() as response:
                answer = self._read(response, f"{method} {target}")
        finally:
            connection.close()
        assert answer.status != 500, str(answer)
        return answer

    def get(self, path: str, *, query: Query | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self.send("GET", path, query=query, headers=headers)

    def post(self, path: str, body: Json = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        return self.send("POST", path, body, headers=headers)

    def _encode(
        self, body: Json, raw: bytes | Iterable[bytes] | None, headers: Mapping[str, str]
    ) -> tuple[bytes | Iterable[bytes] | None, dict[str, str]]:
        sent = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        content = raw if body is None else compact(body)
        if content is not None:
            sent["Content-Type"] = "application/json"
        return content, sent | dict(headers)

    def _read(self, response: HTTPResponse, asked: str) -> Answer:
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read(), asked)


def connect(url: str, timeout: float) -> HTTPConnection:
    """A connection to the daemon at `url`; `timeout` is in seconds."""
    parts = urlsplit(url)
    return HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=timeout)


def compact(value: Json) -> bytes:
    """JSON without spaces, keys in the order they have, text as it is."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
