"""Owns `stepd keys`: who may call the daemon, for what, and how that is given and taken."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from stepd.cli.exits import EXIT_CODES, REFUSED, Ended
from stepd.cli.options import AsJson, Key, Url

if TYPE_CHECKING:
    from stepd_worker import Client

HEAD: Final = ("id", "name", "scopes", "tenants", "created", "")
PAGE_ITEMS: Final = 200
LAST_ADMIN: Final = (
    "This is the last key that can administer the daemon. Make another one first, with stepd keys new NAME "
    "--scope admin, or revoke it all the same with --force: then only STEPD_ADMIN_KEYS and a restart help."
)


def register(app: typer.Typer) -> None:
    """Adds the group and its commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXIT_CODES, help="Make, list and revoke keys.")
    for command in (new, ls, revoke):
        group.command(epilog=EXIT_CODES)(command)
    app.add_typer(group, name="keys")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is: the principal.", show_default=False)],
    scope: Annotated[
        list[str],
        typer.Option(help="worker, execute, read, write, operate or admin; may be repeated.", show_default=False),
    ],
    tenant: Annotated[
        list[str] | None, typer.Option(help="A tenant it reaches; may be repeated. Else all.", show_default=False)
    ] = None,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Make a key, and print its secret, which is shown this once.

    Several live keys may have one name: that is how a secret is changed without a gap. The first key of a daemon must
    have the scope admin; from then on nobody is served without one.
    """
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json
    from stepd.wording.shown import shown

    with daemon(url, key, as_json=json) as client:
        made = client.new_key(name, scope, tenants=tenant or ())
    if json:
        print_json(made)
        return
    typer.echo(shown(made["secret"]))
    typer.echo(
        f"This is the secret of the key {shown(made['id'])}, {shown(made['name'])} ({_listed(made['scopes'])}; "
        f"tenants: {_tenants(made)}). It is not shown again.",
        err=True,
    )


def ls(
    everything: Annotated[bool, typer.Option("--all", help="Also those that were revoked.")] = False,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List the keys that live, newest first, without their secrets.

    With --json: {"items": [...], "next": null}.
    """
    from stepd.cli.contact import daemon
    from stepd.cli.printing import columns, print_json, say

    with daemon(url, key, as_json=json) as client:
        found = [one for one in _keys(client) if everything or one["revoked_at"] is None]
    if json:
        print_json({"items": found, "next": None})
        return
    if not found:
        typer.echo("No keys. Make the first one with: stepd keys new NAME --scope admin", err=True)
        return
    for row in columns(HEAD, map(_cells, found)):
        say(row)


def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as ls shows it.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Also the last key that can administer.")] = False,
    json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Revoke a key at once.

    Its next call is refused, its waiting claims get nothing, its streams end. Leases that it holds go on under another
    key of the same name, or lapse.
    """
    from stepd.cli.contact import daemon
    from stepd.cli.printing import print_json
    from stepd.wording.shown import shown

    with daemon(url, key, as_json=json) as client:
        if not force and _is_last_admin(client, id):
            typer.echo(f"stepd: {LAST_ADMIN}", err=True)
            raise Ended(REFUSED)
        client.revoke_key(id)
    print_json({"id": id, "revoked": True}) if json else typer.echo(f"The key {shown(id)} is revoked.")


def _keys(client: "Client") -> Iterator[dict[str, Any]]:
    """All keys, over all pages."""
    cursor = None
    while True:
        page = client.keys(limit=PAGE_ITEMS, cursor=cursor)
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return


def _is_last_admin(client: "Client", id: str) -> bool:
    admins = [one for one in _keys(client) if one["revoked_at"] is None and "admin" in one["scopes"]]
    return [one["id"] for one in admins] == [id]


def _cells(one: Mapping[str, Any]) -> list[Any]:
    from stepd.cli.printing import as_text
    from stepd.wording.shown import time_text

    revoked = as_text(f"revoked {time_text(one['revoked_at'])}", "red") if one["revoked_at"] else ""
    return [one["id"], one["name"], _listed(one["scopes"]), _tenants(one), time_text(one["created_at"]), revoked]


def _listed(words: list[str]) -> str:
    from stepd.wording.shown import shown

    return ", ".join(map(shown, words))


def _tenants(one: Mapping[str, Any]) -> str:
    return "all" if one["tenants"] == ["*"] else _listed(one["tenants"])
