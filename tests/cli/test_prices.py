"""`stepd prices` and `stepd usage`: the table put from a file, shown and put again, and what sums make of it."""

import json
from pathlib import Path

from tests.cli.program import Program
from tests.support.client import Http
from tests.support.definitions import read
from tests.support.flow import make_flow
from tests.support.money import put_prices, usage

TABLE = """{"currency": "USD", "prices": [
  {"model": "m-1", "input": 2.5, "cache_read": "0.25", "output": 0.000000001},
  {"model": "m-2*", "valid_from": "2026-01-01", "output": "12"}]}"""


def test_a_table_is_put_shown_edited_and_put_again(real: Program, tmp_path: Path) -> None:
    assert "No prices" in real("prices").expect(0).err
    told = real("prices", "set", "-", input=TABLE).expect(0)
    assert told.out.startswith("Version 1: 2 prices in USD for a million tokens (anonymous, 20")
    lines = [line.split() for line in real("prices").expect(0).lines]
    assert lines[2] == ["m-1", "always", "2.5", "0.25", "-", "0.000000001", "-"]
    assert lines[3] == ["m-2*", "2026-01-01", "00:00:00Z", "-", "-", "-", "12", "-"]
    file = tmp_path / "prices.json"
    file.write_text(real("prices", "--json").expect(0).out.replace("2.5", "3"))
    made = json.loads(real("prices", "set", str(file), "--json").expect(0).out)
    assert (made["version"], made["prices"][0]["input"], made["prices"][0]["output"]) == (2, 3, 1e-9)
    assert "2.5" in real("prices", "--version", "1").expect(0).out
    assert "no version 9" in real("prices", "--version", "9").expect(66).err


def test_a_bad_table_is_refused_with_all_its_faults(real: Program, tmp_path: Path) -> None:
    bad = '{"currency": "usd", "prices": [{"model": "a*b"}, {"model": "m", "input": -1, "outputs": 1}]}'
    said = real("prices", "set", "-", input=bad).expect(65).err
    for path in ("/currency", "/prices/0/model", "/prices/1/outputs"):
        assert path in said
    assert "no JSON" in real("prices", "set", "-", input="{").expect(64).err
    assert "must be" in real("prices", "set", "-", input="[]").expect(65).err
    missing = str(tmp_path / "missing.json")
    assert f"cannot read {missing}" in real("prices", "set", missing).expect(66).err


def test_usage_is_summed(real: Program, http: Http) -> None:
    put_prices(http, {"model": "m", "input": "2.000001", "output": 4})
    work = make_flow(http, read())
    for team, tokens in (("blue", 1), ("red", 10)):
        _, lease = work.begin(labels={"team": team})
        lease.complete(usage=[usage("m", tokens), usage("n", 5)]).expect(200)
    found = real("usage", "--workflow", work.name, "--by", "label:team", "--by", "model").expect(0)
    rows = [line.split() for line in found.lines]
    assert rows[0][:3] == ["label:team", "model", "attempts"]
    assert rows[1] == ["blue", "m", "1", "1", "0", "0", "0", "0", "0", "0.000002", "USD"]
    assert rows[2] == ["blue", "n", "1", "5", "0", "0", "0", "0", "5", "-"]
    assert rows[3][:4] == ["red", "m", "1", "10"]
    assert rows[3][-2:] == ["0.00002", "USD"]
    (total,) = json.loads(real("usage", "--label", "team=blue", "--json").expect(0).out)["items"]
    assert (total["input_tokens"], total["unpriced_tokens"], total["attempts"]) == (6, 5, 1)
    assert "must be some of day" in real("usage", "--by", "hour").expect(65).err
    assert "RFC 3339" in real("usage", "--after", "yesterday").expect(64).err


def test_the_cost_of_an_execution_is_shown_to_its_last_digit(real: Program, http: Http) -> None:
    put_prices(http, {"model": "m", "input": "1.000001"})
    run, lease = make_flow(http, read()).begin()
    lease.complete(usage=[usage("m", 1_000)]).expect(200)
    assert "tokens: 1000 input, 0.001000001 USD" in real("show", run.id).expect(0).out
