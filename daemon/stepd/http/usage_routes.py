"""Owns the part of the table of routes that tells what was used, and what it costs."""

from typing import Annotated, Final

from msgspec import Meta

from stepd.http import handlers
from stepd.http.table import Parameter, Route, Success
from stepd_protocol import admin, executions
from stepd_protocol.fields import ShortText, Time
from stepd_protocol.names import Name

USAGE_ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/usage",
        name="sum_usage",
        summary="Sum tokens and money over what attempts have used",
        handler=handlers.usage_sums,
        part="request_api",
        scopes=("read",),
        parameters=(
            Parameter(
                name="group_by",
                type=str,
                about="some of `day`, `workflow`, `version`, `step`, `model`, `tenant`, `label:<key>`, separated by "
                "commas; left out: one sum of all",
            ),
            Parameter(name="workflow", type=Name, about="of this workflow"),
            Parameter(name="tenant", type=ShortText, about="of this tenant"),
            Parameter(name="label", type=str, many=True, about="of executions with this label, as `key:value`"),
            Parameter(name="model", type=ShortText, about="of this model"),
            Parameter(name="after", type=Time, about="reported at this time or later"),
            Parameter(name="before", type=Time, about="reported before this time"),
            Parameter(name="limit", type=executions.PageLimit, about="how many groups at most"),
            Parameter(name="cursor", type=str, about="`next` of the page before; it holds that page's filters"),
        ),
        successes=(Success(status=200, type=executions.UsageList, about="one page, in the order of the groups"),),
    ),
    Route(
        method="GET",
        path="/v1/admin/prices",
        name="view_prices",
        summary="See what models cost",
        handler=handlers.view_prices,
        part="admin_api",
        scopes=("admin",),
        parameters=(
            Parameter(name="version", type=Annotated[int, Meta(ge=1)], about="an old version; left out: the newest"),
        ),
        successes=(Success(status=200, type=admin.PriceTableView, about="the table; an empty one before the first"),),
        problems=("not_found",),
    ),
    Route(
        method="PUT",
        path="/v1/admin/prices",
        name="put_prices",
        summary="Replace the table of prices, for what is reported from now on",
        handler=handlers.put_prices,
        part="admin_api",
        scopes=("admin",),
        action="prices.put",
        body=admin.PriceTable,
        successes=(Success(status=200, type=admin.PriceTableView, about="the new version"),),
    ),
)
