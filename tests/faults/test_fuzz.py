"""The API under requests made from its own document: no 500, no undocumented status, header, media type or field."""

from pathlib import Path

import pytest
import yaml

from tests.faults.fuzz.run import closed, fuzz
from tests.style.sources import ROOT

pytestmark = pytest.mark.slow


def test_the_api_keeps_to_its_document(tmp_path: Path) -> None:
    found = fuzz(tmp_path, examples=3, seed=1)
    assert not found.faults(), "\n".join([*found.faults(), found.said, found.log[-5000:]])
    assert found.requests > 1_000
    assert {"200", "201", "202", "204", "404", "405", "415", "422"} <= found.by_status.keys()


def test_a_field_that_the_document_lacks_is_found(tmp_path: Path) -> None:
    """Shows that the fuzzer can fail: it is given a document in which a field of one answer is missing."""

    def without_name(document: object) -> None:
        assert isinstance(document, dict)
        view = document["components"]["schemas"]["ServiceView"]
        del view["properties"]["name"]
        view["required"].remove("name")

    found = fuzz(tmp_path, examples=1, seed=1, phases="fuzzing", change=without_name)
    assert found.status != 0
    assert "GET /v1/service" in found.said


def test_every_object_of_an_answer_is_closed_for_the_fuzzer() -> None:
    schemas = closed(yaml.safe_load((ROOT / "openapi.yaml").read_text()))["components"]["schemas"]
    assert all("additionalProperties" in schema for schema in schemas.values())
