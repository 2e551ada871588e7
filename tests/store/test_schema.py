"""The schema on every store: up, down, whole or not at all, released once and for all, with the columns of the rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import stepd_migrations
from stepd.store.sqlite import rows
from stepd_migrations import run
from tests.store.schemas import PLACES, REFUSALS, Place, PostgresPlace
from tests.support.wait import together

TABLES = [
    rows.EXECUTIONS,
    rows.STEPS,
    rows.ATTEMPTS,
    rows.IDEMPOTENCY,
    rows.LEDGER,
    rows.SIGNALS,
    rows.VERSIONS,
    rows.WORKERS,
    rows.KEYS,
    rows.USAGE,
    rows.PRICES,
    rows.SIGN_INS,
]
VERSIONS: Final = Path(stepd_migrations.__file__).parent / "versions"
RELEASED: Final = {
    "v0001_first.py": "7359baeef8f7a45a",
    "v0002_language.py": "7cb1b429ab1a9bfd",
}
"""A released version is never edited: databases are out there that it has made. What is to change is a new one."""
MADE_BY_THE_FIRST: Final = {
    "sqlite": "107c7c0ccbaf08b7",
    "postgres": "d56f1b81c05de7fd",
}
"""What the first version makes, also by way of the helpers that later versions share with it."""


@pytest.fixture(params=list(PLACES), scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Place]:
    """An empty database."""
    with PLACES[kind](tmp_path) as place:
        yield place


@pytest.fixture(scope="module")
def standing(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A database with the newest schema that all tests look at, and none changes."""
    with PLACES[kind](tmp_path_factory.mktemp("schema")) as place:
        place.upgrade()
        yield place


def test_the_version_that_stores_look_for_is_the_newest_one() -> None:
    assert run.newest() == stepd_migrations.HEAD


def test_released_versions_are_as_they_were_released() -> None:
    assert {name: _hash((VERSIONS / name).read_bytes()) for name in RELEASED} == RELEASED


def test_the_first_version_makes_what_it_made_when_it_was_released(place: Place, kind: str) -> None:
    place.upgrade("0001")
    assert _hash(json.dumps(place.objects()).encode()) == MADE_BY_THE_FIRST[kind]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_are_the_fields_of_the_row_in_their_order(table: rows.Table[Any], standing: Place) -> None:
    assert standing.columns(table.name) == list(table.columns)


def test_events_have_the_execution_in_front_of_their_fields(standing: Place) -> None:
    assert standing.columns("events") == ["execution_id", *rows.EVENTS.columns]


def test_audit_rows_have_a_number_in_front_of_their_fields(standing: Place) -> None:
    assert standing.columns("audit") == ["id", *rows.AUDIT.columns]


def test_down_and_up_again(place: Place) -> None:
    place.upgrade()
    before = place.objects()
    place.downgrade("base")
    assert place.objects() == []
    place.upgrade()
    assert place.objects() == before


def test_a_migration_that_fails_leaves_nothing_behind(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.upgrade()
    monkeypatch.syspath_prepend(str(_with_a_broken_version(tmp_path / "later", stepd_migrations.HEAD)))
    before = place.objects()
    with pytest.raises(REFUSALS):
        place.upgrade(location="broken_migrations:")
    assert place.objects() == before
    assert place.query("select version_num from alembic_version") == [(stepd_migrations.HEAD,)]
    assert place.query("select * from pulse") == []


def test_a_version_that_nobody_knows_is_named_and_stays(place: Place) -> None:
    place.upgrade()
    place.query("update alembic_version set version_num = '9999'")
    with pytest.raises(run.UnknownVersion, match="9999"):
        place.upgrade()
    assert place.query("select version_num from alembic_version") == [("9999",)]


def test_the_audit_log_takes_rows_and_lets_none_go(place: Place) -> None:
    place.upgrade()
    place.query("insert into audit values (1, 10, 'p', null, 'do', 'x', null, null, 'done')")
    with pytest.raises(REFUSALS, match="append-only"):
        place.query("update audit set principal = 'q'")
    with pytest.raises(REFUSALS, match="append-only"):
        place.query("delete from audit")
    place.query("update audit_retention set kept_from = 11")
    place.query("delete from audit")
    assert place.query("select * from audit") == []


def test_the_ledger_takes_rows_and_lets_none_go(place: Place) -> None:
    place.upgrade()
    place.query("insert into ledger values ('a', 'x', 10, 'p', 'k', 'h', '', '', null)")
    with pytest.raises(REFUSALS, match="append-only"):
        place.query("update ledger set operator = 'q'")
    with pytest.raises(REFUSALS, match="append-only"):
        place.query("delete from ledger")


def test_two_that_migrate_at_once_wait_for_each_other() -> None:
    with PLACES["postgres"](Path()) as place:
        together([place.upgrade, place.upgrade])
        assert isinstance(place, PostgresPlace)
        assert place.query("select version_num from alembic_version") == [(stepd_migrations.HEAD,)]


def _with_a_broken_version(package_home: Path, head: str) -> Path:
    """A copy of the versions with one more, which fails half-way."""
    package = package_home / "broken_migrations"
    (package / "versions").mkdir(parents=True)
    source = Path(stepd_migrations.__file__).parent
    for name in ("env.py", *(f"versions/{path.name}" for path in VERSIONS.glob("v*.py"))):
        (package / name).write_text((source / name).read_text())
    (package / "__init__.py").write_text("")
    (package / "versions" / "v9998_broken.py").write_text(
        f'revision, down_revision, branch_labels, depends_on = "9998", "{head}", None, None\n'
        "from alembic import op\n"
        "def upgrade():\n"
        '    op.execute("create table half (done int)")\n'
        '    op.execute("insert into pulse (one, at) values (1, 5)")\n'
        '    op.execute("insert into pulse (one, at) values (2, 5)")\n'
    )
    return package_home


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
