"""Reads the fields of a definition that hold expressions and templates."""

from stepd.engine.definition_fields import Fields, shown
from stepd.engine.expressions import Expression, ExpressionFault, Wanted, compile_expression
from stepd.engine.scope import ExpressionScope
from stepd.engine.templates import Template, compile_template


def condition(fields: Fields, field: str, scope: ExpressionScope) -> Expression | None:
    """Reads a condition; left out it is `true`, and None is returned."""
    if not fields.has(field):
        fields.full[field] = "true"
        return None
    return expression(fields, field, scope, "boolean")


def expression(fields: Fields, field: str, scope: ExpressionScope, wanted: Wanted) -> Expression | None:
    """Reads an expression that was given; None where it is faulty."""
    source = fields.take(field, None)
    if not isinstance(source, str):
        fields.fault(field, f"{shown(source)} is no expression, which is a text")
        return None
    try:
        return compile_expression(source, scope, wanted)
    except ExpressionFault as fault:
        fields.fault(field, str(fault))
        return None


def template(fields: Fields, field: str, scope: ExpressionScope) -> Template:
    """Reads a template; left out it is null."""
    return compile_template(fields.take(field, None), scope, fields.at(field), fields.faults)
