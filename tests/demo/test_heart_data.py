"""The bundled records are the publisher's, cleaned and split as documented."""

import csv
from pathlib import Path

import pytest

from parley.demo.heart_data import FILES, bundled, clean, hold_out, hold_out_file, hospital_file, make
from parley.demo.recipe import HOSPITALS, STUDY
from parley.learning.records import load

RAW = Path(__file__).resolve().parents[3] / "shared" / "data" / "heart-disease"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(not RAW.is_dir(), reason="the publisher's files are not beside the repository")
def test_the_bundled_files_are_what_the_publishers_files_make() -> None:
    made = make(RAW)
    assert sorted(made) == sorted(FILES)
    for name, text in made.items():
        assert (bundled() / name).read_text("ascii") == text, name


def test_every_patient_is_in_one_file_and_a_quarter_of_either_outcome_is_public() -> None:
    public = rows(hold_out_file())
    total = 0
    for hospital, size in STUDY.parties.items():
        private = rows(hospital_file(hospital))
        assert len(private) == size
        shown = [row for row in public if row["hospital"] == hospital]
        total += len(private) + len(shown)
        for sick in (False, True):
            inside, outside = (sum((row["num"] != "0") == sick for row in part) for part in (shown, private))
            assert inside == round((inside + outside) / 4)
    assert total == 920
    assert {hospital.name for hospital in HOSPITALS} == {row["hospital"] for row in public}


def test_the_schema_reads_every_file_and_cuts_hardly_anything() -> None:
    described = STUDY.schema
    for path in [hold_out_file(), *(hospital.data_file for hospital in HOSPITALS)]:
        records = load([path], described)
        assert records.rows.dimension == described.dimension == 23
        assert sum(records.adjusted.values()) < 0.01 * len(records.rows) * 13


def test_what_was_not_measured_is_empty() -> None:
    assert clean("63.0,1.0,1.0,0,0,?,0,150.0,0.0,-.5,3.0,0.0,6.0,0")[3:6] == ("", "", "")
    assert clean("63.0,1.0,1.0,0,0,?,0,150.0,0.0,-.5,3.0,0.0,6.0,0")[9] == "-0.5"
    with pytest.raises(ValueError, match="13 cells where 14"):
        clean(",".join("1" * 13))


def test_the_split_depends_on_content_and_not_on_the_order_of_rows() -> None:
    table = [clean(",".join([str(age), *"1" * 12, str(age % 3)])) for age in range(20, 90)]
    chosen = {table[index] for index in hold_out("va", table)}
    assert chosen == {table[::-1][index] for index in hold_out("va", table[::-1])}
    assert chosen != {table[index] for index in hold_out("cleveland", table)}


def test_the_creators_and_the_license_are_named() -> None:
    text = (bundled() / "ATTRIBUTION.md").read_text()
    for words in ("Janosi", "Steinbrunn", "Pfisterer", "Detrano", "CC BY 4.0", "UCI", "What was changed"):
        assert words in text
