"""Decisions: a table of rules evaluated by the daemon where the step becomes ready, and told in the journal."""

from __future__ import annotations

from stepd.engine.canonical import encode
from stepd.engine.cel_bounds import Allowance
from stepd.engine.decisions import AmbiguousMatch, NoMatch, decide_rules
from stepd.engine.definition import CompiledStep
from stepd.engine.environment import Environment
from stepd.engine.faults import StepFailed
from stepd.engine.model import Step
from stepd.engine.results import succeed_with
from stepd.engine.work import Work


def make_decision(
    work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance
) -> None:
    """Evaluates the rules; what the matched ones say is the step's output.

    Raises StepFailed (``no_match``, ``ambiguous_match``), ExpressionFailed, and what evaluating raises.
    """
    assert compiled.decision is not None
    try:
        value, rules = decide_rules(compiled.decision, environment, allowance)
    except NoMatch as fault:
        raise StepFailed("no_match", str(fault)) from None
    except AmbiguousMatch as fault:
        raise StepFailed("ambiguous_match", str(fault)) from None
    work.add_step(row)
    told: dict[str, object] = {"hit_policy": compiled.decision.hit_policy, "rule_ids": list(rules)}
    work.emit("decision.made", row.step, row.index, data=told)
    succeed_with(work, row, encode(value), value)
