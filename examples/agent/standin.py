"""Owns a stand-in for a model's HTTP service: chat completions with tool calls and usage, also as a stream.

It speaks as much of the interface of OpenAI's service as their client needs, on this machine only. What it answers is a
function's to say.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final, TypeAlias

Message: TypeAlias = dict[str, Any]
Answer: TypeAlias = tuple[Message, dict[str, Any]]
"""The assistant's message, and the usage: both as the interface has them."""

PATH: Final = "/v1/chat/completions"


@contextmanager
def standing_in(answer: Callable[[dict[str, Any]], Answer]) -> Iterator[str]:
    """Serves for the length of a `with` block, and yields the URL for `OPENAI_BASE_URL`. `answer` gets a request's
    body; a ValueError of it becomes status 400."""

    class Handler(_Handler):
        answers = staticmethod(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: Callable[[dict[str, Any]], Answer]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path != PATH:
                raise ValueError(f"only {PATH} is served here")
            message, usage = self.answers(asked)
        except ValueError as fault:
            self._send(400, "application/json", json.dumps({"error": {"message": str(fault)}}))
            return
        if asked.get("stream"):
            self._send(200, "text/event-stream", "".join(_events(asked, message, usage)))
        else:
            self._send(200, "application/json", json.dumps(_completion(asked, message, usage)))

    def log_message(self, *said: Any) -> None:
        """Is quiet."""

    def _send(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _completion(asked: dict[str, Any], message: Message, usage: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": _finish_reason(message)}
    return _frame(asked, "chat.completion", [choice], usage)


def _events(asked: dict[str, Any], message: Message, usage: dict[str, Any]) -> Iterator[str]:
    """The same word by word, then why it ends, then the usage where it was asked for."""
    for word in str(message.get("content") or "").split(" "):
        choice = {"index": 0, "delta": {"role": "assistant", "content": f"{word} "}, "finish_reason": None}
        yield _event(_frame(asked, "chat.completion.chunk", [choice]))
    last = {"index": 0, "delta": {}, "finish_reason": _finish_reason(message)}
    yield _event(_frame(asked, "chat.completion.chunk", [last]))
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield _event(_frame(asked, "chat.completion.chunk", [], usage))
    yield "data: [DONE]\n\n"


def _frame(asked: dict[str, Any], kind: str, choices: list[Any], usage: dict[str, Any] | None = None) -> dict[str, Any]:
    frame = {"id": "answer-1", "object": kind, "created": 0, "model": asked["model"], "choices": choices}
    return frame if usage is None else {**frame, "usage": usage}


def _finish_reason(message: Message) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _event(frame: dict[str, Any]) -> str:
    return f"data: {json.dumps(frame)}\n\n"
