"""A draft is private and nobody reads it; what a person has confirmed holds no word of their own records."""

import datetime
import tomllib
from pathlib import Path
from typing import Any

import pytest

from parley.learning.draft import PRIVATE, confirmed, draft
from parley.learning.errors import SchemaError
from parley.learning.fit import fit
from parley.learning.holding import described, holding_from, read_holding, read_layout
from parley.learning.readers import read
from parley.study import Study
from parley.study import read as read_study

DAY = datetime.date(2026, 11, 19)
HEADER = "patient_nbr;age;race;dose;seen;note;outcome;g1;g2;g3;flag_a;flag_b;flag_c"


def rows(count: int = 120) -> list[str]:
    return [
        f"{place % 90};{20 + place % 60};{'ab'[place % 2]};{place / 7};{1 + place % 28}.2.2001;Jane Doe {place};"
        f"{'yes' if place % 3 else 'no'};{place / 3};{place / 5};{place / 11};{place % 2};0;1"
        for place in range(count)
    ]


def write(folder: Path, lines: list[str] | None = None) -> Path:
    path = folder / "ours.csv"
    path.write_text("\n".join([HEADER, *(lines or rows())]) + "\n")
    return path


def drafted(folder: Path, target: str | None = "outcome", lines: list[str] | None = None) -> tuple[Path, str]:
    text = draft(write(folder, lines), target)
    path = folder / "schema.toml"
    path.write_text(text)
    return path, text


def completed(text: str) -> str:
    """As a person might."""
    text = text.replace('source = ""', 'source = "the registry\'s codebook, 2019"')
    text = text.replace('name = "dose"\n', 'name = "dose"\nlow = 0\nhigh = 100\n')
    text = text.replace('name = "seen"\n', 'name = "seen"\nlow = "1990-01-01"\nhigh = "2030-01-01"\n')
    return text.replace('name = "g{1..3}"\n', 'name = "g{1..3}"\nlow = 0\nhigh = 50\n')


def test_a_draft_says_what_the_file_shows_and_leaves_bounds_open(tmp_path: Path) -> None:
    body = tomllib.loads(drafted(tmp_path)[1])
    assert body["draft"] is True
    assert (body["units"], body["delimiter"], body["days"]) == (120, ";", "%d.%m.%Y")
    assert body["target"] == {
        "name": "outcome", "kind": "binary", "positive": ["yes"], "negative": ["no"], "source": "",
    }  # fmt: skip
    columns = {each.get("name") or each["names"][0]: each for each in body["features"]}
    assert list(columns) == ["age", "race", "dose", "seen", "g{1..3}", "flag_a"]
    assert (columns["age"]["low"], columns["age"]["high"]) == (0, 120)
    assert columns["race"] == {
        "name": "race", "kind": "category", "categories": ["a", "b"], "missing": "zero", "other": "zero", "source": "",
    }  # fmt: skip
    assert columns["flag_a"]["names"] == ["flag_a", "flag_b", "flag_c"]
    for name in ("dose", "seen", "g{1..3}"):
        assert not {"low", "high"} & set(columns[name])


def test_every_reader_refuses_a_draft_complete_or_not(tmp_path: Path) -> None:
    path, text = drafted(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(
        '[model]\nkind = "logistic"\n[algorithm]\nname = "auto"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n'
        '[data]\nschema = "schema.toml"\ntrain = ["ours.csv"]\n'
    )
    for content in (text, completed(text)):
        path.write_text(content)
        body = tomllib.loads(content)
        for read_it in (
            lambda: read_holding(path),
            lambda: read_layout(path),
            lambda: holding_from(body),  # noqa: B023
            lambda: described({**body}),  # noqa: B023
            lambda: Study(path, epsilon=1.0),
            lambda: Study(body, epsilon=1.0),  # noqa: B023
            lambda: read_study(study),
        ):
            with pytest.raises(SchemaError, match="is a draft"):
                read_it()
    path.write_text(confirmed(path, "Dr. Ada Osei", DAY))
    assert read_holding(path).units == 120
    assert read_study(study).schema.width > 0


def test_what_is_still_open_is_said_all_at_once(tmp_path: Path) -> None:
    path, text = drafted(tmp_path)
    with pytest.raises(SchemaError) as caught:
        confirmed(path, "Dr. Ada Osei", DAY)
    said = str(caught.value)
    lines = text.splitlines()
    for name, words in (
        ("outcome", "name the public codebook"), ("race", "name the public codebook"),
        ("dose", "give low and high"), ("seen", "give low and high"), ("g{1..3}", "give low and high"),
    ):  # fmt: skip
        (found,) = [line for line in said.splitlines() if f": {name.replace('{1..3}', '1')}: " in line]
        assert words in found
        place = lines.index('name = "' + name + '"') + 1
        assert f"line {place}:" in found
    assert "flag_a: name the public codebook" in said
    assert len(said.splitlines()) == 7


@pytest.mark.parametrize("source", ['source = ""', 'source = "  "', ""])
def test_a_category_without_a_codebook_is_never_confirmed(tmp_path: Path, source: str) -> None:
    path, text = drafted(tmp_path)
    whole = completed(text)
    book = 'source = "the registry\'s codebook, 2019"'
    start, race, rest = whole.partition('name = "race"')
    path.write_text(start + race + rest.replace(book, source, 1))
    with pytest.raises(SchemaError, match="race: name the public codebook"):
        confirmed(path, "Dr. Ada Osei", DAY)


def test_a_target_that_nobody_named_is_open(tmp_path: Path) -> None:
    path, text = drafted(tmp_path, target=None)
    assert "[target]\n#~ name = …" in text
    path.write_text(completed(text))
    with pytest.raises(SchemaError, match="give name and kind"):
        confirmed(path, "Dr. Ada Osei", DAY)


def test_what_is_confirmed_holds_nothing_that_tells_of_records(tmp_path: Path) -> None:
    path, text = drafted(tmp_path, lines=[*rows(), "7;41;secret word;1;1.2.2001;x;yes;1;1;1;0;0;0"])
    assert PRIVATE in text
    assert "different values" in text
    # The person strikes the word that no codebook lists.
    path.write_text(completed(text).replace('"secret word"', "").replace('"b", ]', '"b"]'))
    stated = confirmed(path, "Dr. Ada Osei", DAY)
    for tells in (PRIVATE, "different values", "secret", "Jane", "draft", "several rows"):
        assert tells not in stated
    assert stated.startswith("# Confirmed by Dr. Ada Osei on 2026-11-19")
    holding = holding_from(tomllib.loads(stated))
    assert fit(read([tmp_path / "ours.csv"], holding.layout, "outcome"), holding).problems == []


@pytest.mark.parametrize("by", ["", "  ", "two\nlines = 1"])
def test_somebody_answers_for_it(tmp_path: Path, by: str) -> None:
    path, text = drafted(tmp_path)
    path.write_text(completed(text))
    with pytest.raises(SchemaError, match="--by"):
        confirmed(path, by, DAY)


def test_what_is_no_draft_is_not_confirmed(tmp_path: Path) -> None:
    path, text = drafted(tmp_path)
    path.write_text(completed(text).replace("draft = true\n", ""))
    with pytest.raises(SchemaError, match="is no draft"):
        confirmed(path, "Dr. Ada Osei", DAY)


def rules(body: dict[str, Any]) -> list[Any]:
    return [{key: each.get(key) for key in ("kind", "missing", "other", "low", "high")} for each in body["features"]]


def test_rules_do_not_depend_on_whether_a_cell_is_empty_or_a_word_is_rare(tmp_path: Path) -> None:
    """What a draft proposes by itself is the same for two files that differ in how often something is there."""
    full = rows()
    gaps = [line.replace(";a;", ";;").replace(";41;", ";;") if place < 40 else line for place, line in enumerate(full)]
    rare = [*full[:-1], full[-1].replace(";b;", ";rare;")]
    found = [tomllib.loads(drafted(tmp_path, lines=lines)[1]) for lines in (full, gaps, rare)]
    assert rules(found[0]) == rules(found[1]) == rules(found[2])
    assert found[2]["features"][1]["categories"] == ["a", "b", "rare"]


def test_no_bound_follows_the_values(tmp_path: Path) -> None:
    """Values a million times as large have the same draft, but for what tells of records."""
    large = [line.replace(";0.", ";900000.") for line in rows()]
    texts = [drafted(tmp_path, lines=lines)[1] for lines in (rows(), large)]
    assert rules(tomllib.loads(texts[0])) == rules(tomllib.loads(texts[1]))


def test_that_a_column_holds_0_and_1_alone_needs_a_source(tmp_path: Path) -> None:
    """The highest value that is there is no bound: nothing else would hold a person up who confirms it."""
    path, text = drafted(tmp_path)
    at = text.index('"flag_a"')
    path.write_text(completed(text[:at]) + text[at:])
    with pytest.raises(SchemaError, match="flag_a: name the public codebook that its bounds are from"):
        confirmed(path, "Dr. Ada Osei", DAY)


def test_a_number_to_predict_is_no_pair_of_labels(tmp_path: Path) -> None:
    target = tomllib.loads(drafted(tmp_path, target="age")[1])["target"]
    assert (target["kind"], target["low"], target["high"]) == ("number", 0, 120)


def test_a_column_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"no column 'sick' in ours\.csv: it has patient_nbr, age"):
        drafted(tmp_path, target="sick")
