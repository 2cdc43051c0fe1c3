"""Whatever a user has becomes the parties' records; what is held out is in no training set."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.errors import ParleyError
from parley.learning.readers import Table
from parley.learning.records import Records, encode, of_units
from parley.learning.rows import DenseRows, Rows, SparseRows
from parley.learning.schema import schema_from_json
from parley.study.data import _same, sets_of, together
from parley.study.errors import StudyError
from parley.study.simulation import SeededRandomness, split
from parley.study.study import Study
from tests.study.test_study import COLUMNS

STUDY = Study(COLUMNS, epsilon=1.0)


def table(count: int = 50, start: int = 0) -> dict[str, Any]:
    numbers = np.arange(start, start + count)
    return {"age": list(numbers % 100), "dose": list(numbers % 6), "ill": [str(each % 2) for each in numbers]}


def text_of(columns: dict[str, Any]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def rows_of(records: Records) -> list[tuple[float, ...]]:
    dense = records.rows.take(np.arange(len(records.rows))).dense()
    return [(*row, target) for row, target in zip(dense.tolist(), records.targets.tolist(), strict=True)]


def test_a_table_is_one_set_and_a_table_of_tables_the_parties(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(text_of(table(30, 7)))
    alone = sets_of(STUDY, table())
    assert (list(alone.own), alone.shares, alone.sizes()) == (["pooled"], ("party-1",), {"party-1": 50})
    two = sets_of(STUDY, {"a": table(), "b": str(tmp_path / "b.csv")})
    assert two.sizes() == {"a": 50, "b": 30}
    assert rows_of(two.own["b"]) == rows_of(sets_of(STUDY, table(30, 7)).pooled)


def test_a_pooled_set_is_shared_out_over_the_parties_that_the_study_names() -> None:
    named = STUDY.replaced(parties={"a": 10, "b": 10, "c": 10})
    sets = sets_of(named, table())
    assert sets.sizes() == {"a": 17, "b": 17, "c": 16}
    shared = [row for records in sets.parties(3).values() for row in rows_of(records)]
    assert sorted(shared) == sorted(rows_of(sets.pooled))


def test_files_of_the_study_are_read_where_no_data_is_given_and_again_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text(text_of(table(20)))
    study = STUDY.replaced(data={"train": [str(path)], "parties": 2})
    first = sets_of(study)
    assert first.sizes() == {"party-1": 10, "party-2": 10}
    path.write_text(text_of(table(24)))
    second = sets_of(study)
    assert sum(second.sizes().values()) == 24
    assert set(first.rows) < set(second.rows)
    with pytest.raises(StudyError, match="2 and 3 parties are named"):
        sets_of(study.replaced(parties={"a": 1, "b": 1, "c": 1}))


def test_a_fifth_of_each_party_is_held_out_and_trains_nobody() -> None:
    parties = {"a": table(50), "b": table(30, 50)}
    sets = sets_of(STUDY, parties, None, SeededRandomness("hold-out", 1))
    assert sets.sizes() == {"a": 40, "b": 24}
    assert sets.test is not None
    assert not sets.public
    kept = [row for records in sets.own.values() for row in rows_of(records)]
    everything = [row for each in parties.values() for row in rows_of(sets_of(STUDY, each).pooled)]
    assert sorted([*kept, *rows_of(sets.test)]) == sorted(everything)
    third = sets_of(STUDY, table(30), 0.3, SeededRandomness("hold-out", 1))
    assert third.test is not None
    assert len(third.test.rows) == 9


def test_a_test_set_that_is_given_is_public_and_takes_nothing_away() -> None:
    sets = sets_of(STUDY, table(50), table(12, 50), SeededRandomness("hold-out", 1))
    assert sets.public
    assert sets.test is not None
    assert (len(sets.test.rows), sum(sets.sizes().values())) == (12, 50)


def test_who_has_several_records_is_held_out_and_shared_out_whole() -> None:
    schema = schema_from_json({**COLUMNS, "unit": "patient", "records_per_unit": 3})
    patients = [f"p{index // 3}" for index in range(60)]
    ages = [int(name[1:]) for name in patients]
    study = STUDY.replaced(schema=schema)
    body: dict[str, list[Any]] = {"patient": patients, "age": ages, "dose": [1] * 60, "ill": ["0", "1"] * 30}
    sets = sets_of(study, body, None, SeededRandomness("hold-out", 1))
    assert sum(sets.sizes().values()) == 16
    assert sets.test is not None
    tested, trained = ({row[0] for row in rows_of(each)} for each in (sets.test, sets.pooled))
    assert (len(tested), len(trained), tested & trained) == (4, 16, set())
    whole = encode(Table(dict(body), 60), schema)
    for records in split(whole, 3, 0).values():
        ages_of = [row[0] for row in rows_of(records)]
        assert all(ages_of.count(each) == 3 for each in ages_of)
        assert {tuple({ages_of[row] for row in member if row >= 0}) for member in records.members} == {
            (each,) for each in set(ages_of)
        }
    assert of_units(whole, np.array([2])).units == 1


def test_all_rows_are_together_for_evaluation() -> None:
    one, other = sets_of(STUDY, table(5)).pooled, sets_of(STUDY, table(4, 5)).pooled
    assert rows_of(together([one, other])) == rows_of(one) + rows_of(other)


@pytest.mark.parametrize(
    ("data", "test", "says"),
    [
        (None, None, "no records"),
        ({}, None, "names no party"),
        ({"Hospital A": table()}, None, "called 'Hospital A'"),
        (table(2), None, "too few to hold out"),
        (table(), 1.5, "share between 0 and 1"),
        (table(), 2, "test is 2: give a share between 0 and 1"),
        ("there/nobody.csv", None, "there/nobody.csv: there is no such file"),
        ({"a": {"age": [1], "dose": [1]}}, None, "ill"),
        ({"a": {"aeg": [1], "dose": [1], "ill": [1]}}, None, "did you mean it by 'aeg'|no column 'age'"),
        ({"a": "nowhere.csv"}, None, "nowhere.csv"),
    ],
)
def test_what_cannot_be_read_is_named(data: Any, test: Any, says: str) -> None:
    with pytest.raises(ParleyError, match=says):
        sets_of(STUDY, data, test, SeededRandomness("hold-out", 1))


def test_a_cell_that_does_not_fit_is_said_with_the_command_that_says_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("age,dose,ill\n20,1,0\n30,2,maybe\n40,x,1\n")
    with pytest.raises(ParleyError, match=r"line \d.*at once: parley schema diff STUDY\.toml FILE"):
        sets_of(STUDY, str(path))


def test_rows_of_ones_in_other_columns_are_another_table() -> None:
    ones, targets = np.ones((3, 2), np.int64), np.array([0.0, 1.0, 0.0])

    def sparse(columns: list[list[int]]) -> Rows:
        return SparseRows.of(np.array(columns), ones, 0, 9)

    one = sparse([[1, 2], [3, 4], [5, 6]])
    assert _same(Records(one, targets), Records(sparse([[1, 2], [3, 4], [5, 6]]), targets.copy()))
    assert not _same(Records(one, targets), Records(sparse([[1, 2], [3, 4], [5, 7]]), targets))
    assert not _same(Records(one, targets), Records(DenseRows.of(ones, 0), targets))
    assert _same(Records(DenseRows.of(ones, 0), targets), Records(DenseRows.of(ones, 0), targets))
