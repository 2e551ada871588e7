"""Owns the messages of a simulation: what its steps are said to come to, and what the machine makes of that."""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, UnsetType, field

from stepd_protocol.executions import Event, ExecutionError, SignalNotTaken, SignalRequest, StandingWrite
from stepd_protocol.fields import Answer, Count, Index, Payload, Request, ShortText, Time
from stepd_protocol.leases import ErrorInfo
from stepd_protocol.names import Direction, ExecutionStatus, HitPolicy, Name, ReportedEffect, StepStatus


class SimulatedFailure(Request, frozen=True, kw_only=True):
    """A failure as a worker would tell it; of a `workflow` step, what its child failed of.

    Class `lost`: nobody is heard of any more, and the lease lapses.
    """

    class_: Name = field(name="class")
    message: str = "as the simulation was told"
    effect: ReportedEffect | None = None
    details: Payload = UNSET


class SimulatedOutcome(Request, frozen=True, kw_only=True):
    """What an attempt of a task, or the child of a `workflow` step, comes to: an output, or a failure."""

    output: Payload = UNSET
    state: dict[str, Raw] | UnsetType = UNSET
    """Of a task: the patch of the execution's state."""
    fail: SimulatedFailure | None = None


OneOutcome: TypeAlias = SimulatedOutcome | None
SimulatedStepOutcomes: TypeAlias = OneOutcome | list[OneOutcome | list[OneOutcome]]
"""One for all, or a list: for each attempt, or item or round, in order; the last one counts for all that follow. Of an
item or round it may be a list for its attempts. Null: the step does nothing."""


class SimulateRequest(Request, frozen=True, kw_only=True):
    """What a simulation begins with. A step that isn't named does nothing, and succeeds with null."""

    version: Name | None = None
    input: Payload = UNSET
    state: Payload = UNSET
    correlation: ShortText | None = None
    steps: dict[Name, SimulatedStepOutcomes] = field(default_factory=dict)
    signals: list[SignalRequest] = field(default_factory=list)
    """Sent at the beginning, in this order; each is kept until a wait takes it."""


class SimulatedStep(Answer, frozen=True, kw_only=True):
    """A step, or one item or round of it, as it came to stand."""

    id: Name
    index: Index | None
    status: StepStatus
    attempts: Count
    """How many began."""
    held: bool
    caught: bool
    error: ErrorInfo | None
    input: Payload = UNSET
    """Where the step has one of its own, left out where the answer would grow too large, as `output`."""
    output: Payload = UNSET


class MatchedRules(Answer, frozen=True, kw_only=True):
    """Which rules of a decision made its output; none where the default did."""

    step: Name | None
    """Null: the definition's `outcome`."""
    hit_policy: HitPolicy
    rule_ids: list[str]


class AppliedUpdate(Answer, frozen=True, kw_only=True):
    """One change of the state at the end."""

    path: str
    value: Raw


class SimulationAnswer(Answer, frozen=True, kw_only=True):
    """What became of an execution that never was."""

    workflow: Name
    version: Name
    status: ExecutionStatus
    direction: Direction
    stopped: Literal["nothing_moves", "bounds"] | None
    """Null: it has ended, or needs reconciliation. `nothing_moves`: it waits for ever. `bounds`: it was cut off."""
    simulated_seconds: Annotated[float, Meta(ge=0)]
    """How long it would have taken, were its bodies done in no time."""
    error: ExecutionError | None
    path: list[SimulatedStep]
    """In the order in which they were first heard of."""
    rules: list[MatchedRules]
    updates: list[AppliedUpdate]
    state: Raw
    revision: Count
    outcome: Raw
    output: Raw
    standing_writes: list[StandingWrite]
    signals_not_taken: list[SignalNotTaken]
    ended_at: Time | None
    journal: list[Event]
