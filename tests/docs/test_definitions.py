"""docs/definitions.md: every example on it runs, against a real daemon, and comes to what the page says."""

from collections.abc import Iterator

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from stepd_protocol.definitions import STEP_FIELDS, Definition, Step
from stepd_worker import Client, Workflow
from tests.docs.pages import ROOT, Runner, Section, load, program, sections
from tests.sdk.served import serving
from tests.support.daemon import running

PAGE = "definitions.md"
SECTIONS = sections(PAGE)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A real daemon, and one worker that serves every workflow of the page."""
    flows = [flow for section in SECTIONS for flow in _workflows(section)]
    with (
        running(tmp_path_factory.mktemp("definitions") / "stepd.db") as daemon,
        Client(daemon.url) as client,
    ):
        for flow in flows:
            if not flow.bodies:
                client.register(flow.name, flow.definition())
        with serving(client, *(flow for flow in flows if flow.bodies), concurrency=8):
            yield client


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_an_example_comes_to_what_the_page_says(client: Client, section: Section) -> None:
    assert any(command.comes_to is not None for command in section.commands), "it says what comes out"
    runner = Runner(client)
    for command in section.commands:
        runner.check(command)


def test_the_view_has_what_the_page_says_of_it(client: Client) -> None:
    trip = client.wait(client.start("trip")["id"], timeout_seconds=20)
    status = {step["id"]: step["status"] for step in trip["steps"]}
    assert (status["cancel_hotel"], status["cancel_flight"], trip["standing_writes"]) == ("succeeded", "succeeded", [])
    ticket = client.start("ticket", {"score": 7}, state={"ticket": {"id": 1}})
    ticket = client.wait(ticket["id"], timeout_seconds=20)
    assert ticket["outcome"] == "urgent"
    assert ticket["state"] == {"ticket": {"id": 1, "score": 7}, "looked_at": True, "seen": True}


def test_the_commands_are_as_the_program_takes_them() -> None:
    group = get_command(program())
    assert isinstance(group, TyperGroup)
    for words in [command.words for section in SECTIONS for command in section.commands]:
        context = group.make_context("stepd", list(words))
        name, found, rest = group.resolve_command(context, words)
        assert found is not None
        assert found.make_context(name, rest, parent=context).params, words


def test_the_page_names_every_field() -> None:
    page = (ROOT / "docs" / PAGE).read_text("utf-8")
    fields = {*STEP_FIELDS["task"], *Step.__struct_encode_fields__, *Definition.__struct_encode_fields__}
    assert sorted(field for field in fields if f"`{field}`" not in page) == []


def _workflows(section: Section) -> list[Workflow]:
    return [flow for place, program in enumerate(section.programs) for flow in load(program, f"page_{place}")]
