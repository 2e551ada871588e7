"""Decisions: a table of rules, compiled from a definition and evaluated to an output."""

from dataclasses import dataclass
from typing import Any, assert_never

from stepd.engine.canonical import encode, equal
from stepd.engine.cel_bounds import Allowance
from stepd.engine.definition_fields import Fields
from stepd.engine.definition_texts import condition, template
from stepd.engine.expressions import Expression
from stepd.engine.scope import Env, ExpressionScope, References
from stepd.engine.templates import Template
from stepd_protocol.names import HIT_POLICIES, HitPolicy, is_name

DECISION_FIELDS = frozenset({"hit_policy", "rules", "default"})
RULE_FIELDS = frozenset({"id", "when", "then"})


class NoMatch(Exception):
    """No rule of a decision matched, and it has no default."""


class AmbiguousMatch(Exception):
    """More rules of a decision matched than its hit policy allows."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One row of a decision; a rule without `when` always matches."""

    id: str
    when: Expression | None
    then: Template


@dataclass(frozen=True, slots=True)
class CompiledDecision:
    """A table of rules; `default` is None where the definition gives none."""

    hit_policy: HitPolicy
    rules: tuple[CompiledRule, ...]
    default: Template | None
    references: References


def decide_rules(
    decision: CompiledDecision, env: Env, allowance: Allowance | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Returns the decision's output and the ids of the rules that made it; none where the default did.

    `first` takes the first rule that matches, `unique` the only one, `any` one of several that agree on their output,
    `collect` the list of all; its work is taken from the `allowance`. Raises NoMatch, AmbiguousMatch, ExpressionFailed,
    and what `env` raises.
    """
    allowance = allowance or Allowance()
    matched: list[CompiledRule] = []
    for rule in decision.rules:
        if rule.when is None or rule.when.evaluate(env, allowance):
            matched.append(rule)
            if decision.hit_policy == "first":
                break
    if not matched:
        if decision.default is None:
            raise NoMatch(f"none of the {len(decision.rules)} rules matched, and there is no default")
        return decision.default.render(env, allowance), ()
    ids = tuple(rule.id for rule in matched)
    if decision.hit_policy == "unique" and len(matched) > 1:
        raise AmbiguousMatch(f"the hit policy is unique, and the rules {', '.join(ids)} matched")
    outputs = [rule.then.render(env, allowance) for rule in matched]
    return _combined(decision.hit_policy, outputs, ids), ids


def _combined(hit_policy: HitPolicy, outputs: list[Any], ids: tuple[str, ...]) -> Any:
    match hit_policy:
        case "collect":
            return outputs
        case "any":
            written = [encode(output) for output in outputs]
            if not all(equal(written[0], other) for other in written[1:]):
                raise AmbiguousMatch(f"the rules {', '.join(ids)} matched with different outputs")
            return outputs[0]
        case "first" | "unique":
            return outputs[0]
        case _:
            assert_never(hit_policy)


def read_decision(fields: Fields, scope: ExpressionScope) -> CompiledDecision:
    """Reads the fields of a decision, whose object may have others beside them, with every fault in them."""
    hit_policy = fields.choice("hit_policy", HIT_POLICIES, "first")
    default = template(fields, "default", scope) if fields.has("default") else None
    rules: list[CompiledRule] = []
    if fields.required("rules"):
        rows = fields.objects("rules")
        rules = [_read_rule(row, place, scope) for place, row in enumerate(rows)]
        fields.full["rules"] = [row.full for row in rows]
        if not fields.given["rules"]:
            fields.fault("rules", "a decision has one rule at least")
        _check_ids(rows, rules)
    references = References() if default is None else default.references
    for rule in rules:
        references |= rule.then.references
        references |= References() if rule.when is None else rule.when.references
    return CompiledDecision(hit_policy, tuple(rules), default, references)


def _read_rule(row: Fields, place: int, scope: ExpressionScope) -> CompiledRule:
    row.refuse_others(RULE_FIELDS)
    id_ = row.take("id", str(place))
    if not (isinstance(id_, str) and is_name(id_)):
        id_ = row.checked_name("id", id_) or str(place)
    row.required("then")
    return CompiledRule(id_, condition(row, "when", scope), template(row, "then", scope))


def _check_ids(rows: list[Fields], rules: list[CompiledRule]) -> None:
    seen: dict[str, int] = {}
    for place, (row, rule) in enumerate(zip(rows, rules, strict=True)):
        if rule.id in seen:
            row.fault("id", f"rule {seen[rule.id]} has the id {rule.id} too")
        seen.setdefault(rule.id, place)
