"""Owns what can go wrong: what the daemon answers, what a body may raise to say how it failed, why a worker stops."""

from typing import Any, Literal, TypeAlias

CancelReason: TypeAlias = Literal["lease_lost", "execution_ended", "cancel_requested", "shutting_down"]
"""Why a body is asked to stop."""


class StepdError(Exception):
    """The base of what `Client` and `Worker` raise."""


class ApiError(StepdError):
    """The daemon answered a call with a problem.

    `status` is the HTTP status, `code` the stable name of the problem, `detail` its text for people, `errors` the
    faults in single fields (`[{"path", "message"}]`), `reason` why a call for a lease was refused, `problem` all of it.
    """

    def __init__(self, problem: dict[str, Any]) -> None:
        self.problem = problem
        self.status = int(problem.get("status", 500))
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail") or problem.get("title") or "")
        self.errors: list[dict[str, str]] = list(problem.get("errors") or [])
        self.reason: str | None = problem.get("reason")
        super().__init__(_problem_text(self))


class Unreachable(StepdError):
    """No answer came from the daemon for as long as the call was willing to wait."""


class ExecutionNotCompleted(StepdError):
    """An execution whose result was asked for ended otherwise, or needs reconciliation; `execution` is its view."""

    def __init__(self, execution: dict[str, Any]) -> None:
        self.execution = execution
        self.status = str(execution["status"])
        error = execution.get("error")
        why = f": {error['class']}: {error['message']}" if error else ""
        super().__init__(f"The execution {execution['id']} is {self.status}, not completed{why}")


class WorkerRefused(StepdError):
    """The daemon doesn't let this worker work: its key is refused, or what it sends is; the message says what to do."""


class Retryable(Exception):
    """Raised by a body: it failed, and may be tried again within the step's budget.

    `retry_after` asks for a wait: seconds, or an HTTP date as text. `details` is any JSON for who reads the failure.
    """

    def __init__(self, message: str = "", *, retry_after: float | str | None = None, details: Any = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.details = details


class StepFailed(Exception):
    """Raised by a body: it failed for good, with a class of its own that the definition's `catch` may name."""

    def __init__(self, class_: str, message: str = "", *, details: Any = None) -> None:
        super().__init__(message)
        self.class_ = class_
        self.details = details


class NotApplied(Exception):
    """Raised by a body around another error, to swear that nothing happened outside.

    It speaks for this attempt, and with `any_attempt` for every one under the step's idempotency key.
    """

    def __init__(self, error: Exception, *, any_attempt: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.any_attempt = any_attempt


class Applied(Exception):
    """Raised by a body around another error, to say that what it does outside was done, though the body failed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Cancelled(Exception):
    """Raised in a body by `ctx.raise_if_cancelled()`; `reason` is the same as `ctx.cancelled.reason`."""

    def __init__(self, reason: CancelReason) -> None:
        super().__init__(f"The body was asked to stop: {reason}")
        self.reason = reason


def _problem_text(error: ApiError) -> str:
    faults = "".join(f"\n  {fault.get('path') or '/'}: {fault.get('message', '')}" for fault in error.errors)
    return f"{error.status} {error.code}: {error.detail}{faults}"
