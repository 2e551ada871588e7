"""Templates: JSON in which an object with the single key `$cel` stands for the value of that expression."""

from typing import Any

from stepd.engine.expressions import Env, References


class Template:
    """One compiled template."""

    __slots__ = ("constant", "references")

    references: References
    constant: bool
    """Whether it holds no expression."""

    def render(self, env: Env) -> Any:
        """Returns the value as decoded JSON. Raises ExpressionFailed, and what `env` raises."""
        raise NotImplementedError
