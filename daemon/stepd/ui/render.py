"""Makes pages of templates. Whatever comes from outside is text on them, and shows what it hides."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import jinja2

from stepd.wording.shown import shown

FOLDER: Final = Path(__file__).parent
HTML: Final = "text/html; charset=utf-8"


def visible(value: Any) -> str:
    """Text with control characters and invisible marks as escapes, so that none of it misleads; escaped like any."""
    return shown(str(value))


def money(value: Any) -> str:
    """An amount with two places at least, and none that say nothing."""
    if value is None:
        return ""
    amount = Decimal(str(value)).normalize()
    return f"{amount:,.2f}" if -int(amount.as_tuple().exponent) <= 2 else f"{amount:,f}"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["visible"] = visible
    environment.filters["money"] = money
    return environment


_ENVIRONMENT: Final = _environment()


def render(template: str, **values: Any) -> bytes:
    """The page that this template makes of the values. A lone surrogate in them becomes a question mark."""
    return _ENVIRONMENT.get_template(template).render(values).encode("utf-8", "replace")
