"""`parley schema`, from a file that nobody has described to a sealed node."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from parley.cli.commands.schema import app
from parley.errors import ParleyError
from tests.support.examined import change

ROWS = "".join(f"{20 + n % 60};{'ab'[n % 2]};{n / 7};{'yes' if n % 3 else 'no'}\n" for n in range(120))


def schema(*words: str) -> Result:
    return CliRunner().invoke(app, [*words], catch_exceptions=True)


def body_of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout.strip().splitlines()[-1])
    return found


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours.csv").write_text("age;race;dose;sick\n" + ROWS)
    return tmp_path


def test_from_a_file_to_a_schema_that_a_person_has_confirmed(ours: Path) -> None:
    done = schema("draft", "ours.csv", "--target", "sick")
    assert done.exit_code == 0, done.output
    assert "a draft. It holds words from your records: keep it here." in done.output
    path = ours / "schema.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    again = schema("draft", "ours.csv")
    assert isinstance(again.exception, ParleyError)
    assert "is there already" in str(again.exception)
    refused = schema("confirm", "schema.toml", "--by", "Dr. Ada Osei")
    assert isinstance(refused.exception, ParleyError)
    assert len(str(refused.exception).splitlines()) == 4  # the race, the dose and the target, and how many
    text = path.read_text().replace('source = ""', 'source = "the registry\'s codebook"')
    path.write_text(text.replace('name = "dose"', 'name = "dose"\nlow = 0\nhigh = 10000'))
    complete = schema("diff", "schema.toml", "ours.csv")
    assert complete.exit_code == 1
    assert "ours.csv fits schema.toml, which waits to be confirmed" in complete.output
    confirmed = schema("confirm", "schema.toml", "--by", "Dr. Ada Osei", "--json")
    assert body_of(confirmed) == {"confirmed": "schema.toml", "by": "Dr. Ada Osei"}
    assert path.read_text().startswith("# Confirmed by Dr. Ada Osei on ")
    said = schema("diff", "schema.toml", "ours.csv")
    assert said.exit_code == 0, said.output
    assert "WARNING: dose: its values fill 0.2% of low = 0, high = 10000" in said.output
    assert "ours.csv fits schema.toml" in said.output


def test_what_is_in_no_list_is_said_and_a_script_gets_all_of_it(ours: Path) -> None:
    schema("draft", "ours.csv", "--target", "sick", "-o", "draft.toml", "--json")
    (ours / "ours.csv").write_text("age;race;dose;sick;more\n20;c;1;yes;1\n30;c;x;no;1\n")
    done = schema("diff", "draft.toml", "ours.csv")
    assert done.exit_code == 1
    for words in ("not in the list of race: 'c' (2 rows)", "not in draft.toml: more", "open: line", "does not fit yet"):
        assert words in done.output.replace("does not fit draft.toml yet", "does not fit yet")
    body = body_of(schema("diff", "draft.toml", "ours.csv", "--json"))
    assert body["unlisted"] == {"race": {"c": 2}}
    assert (body["fits"], body["unused"], body["absent"]) == (False, ["more"], [])


def test_a_check_says_loudly_which_bounds_do_not_suit(party: Path) -> None:
    assert body_of(schema("check", str(party), "--json"))["warnings"] == []
    change(party / "schema.toml", "high = 90", "high = 9000")
    done = schema("check", str(party))
    assert done.exit_code == 0, done.output
    assert "WARNING: age: its values fill 0.8% of low = 20, high = 9000" in done.output
    assert "write low = 0, high = 120" in body_of(schema("check", str(party), "--json"))["warnings"][0]
    change(party / "schema.toml", "high = 9000", "high = 21")
    assert "(96%): write low = 0, high = 120" in schema("check", str(party)).output


def test_a_node_whose_schema_is_a_draft_waits(party: Path) -> None:
    text = (party / "schema.toml").read_text()
    (party / "schema.toml").write_text("draft = true\n" + text)
    refused = schema("check", str(party))
    assert isinstance(refused.exception, ParleyError)
    assert "schema.toml: this schema is a draft" in str(refused.exception)
