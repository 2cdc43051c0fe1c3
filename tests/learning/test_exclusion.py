"""Who is on the list has no influence on any answer, to the bit; nobody else's changes, and nor does the sampling."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.federation.question import LocalFit
from parley.learning.contributor import Contributor, Encoding, Query
from parley.learning.errors import DataError
from parley.learning.exclusion import ExclusionList, checked, files_mark, matched, missing, null_rows, parsed, read_list
from parley.learning.holding import Holding, Layout, holding_from
from parley.learning.models import Linear, Logistic
from parley.learning.perceptron import Perceptron
from parley.learning.readers import Data, Dense, Sparse, Table
from parley.learning.records import Records, encode, of_units
from parley.learning.rows import DenseRows, SparseRows
from parley.learning.schema import Schema, schema_from_json
from parley.privacy.clipping import Clip, GradientClip, MomentumClip
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.sampling import FixedSize, Poisson

FEATURES = [{"name": "age", "low": 20.0, "high": 90.0}, {"name": "pulse", "low": 30.0, "high": 220.0}]
TARGET = {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]}
UNIFORM = {"count": 40, "low": -1.0, "high": 1.0}
N = 12
PICTURE = {"kind": "scattering", "shape": [1, 8, 8], "groups": 9}


class Repeated:
    """The same bytes, so that two parties draw one batch."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(3)

    def read(self, count: int) -> bytes:
        return self._draw.bytes(count)


def made(kind: str, theirs: float) -> tuple[Data, Schema, Holding]:
    """Twelve records; the cells of the third person's are functions of `theirs`, and all others' are not."""
    draw = np.random.default_rng(5)
    more: dict[str, Any] = {"intercept": True, "bits": 8}
    if kind in ("rows", "units"):
        age, pulse = draw.uniform(20, 90, N), draw.uniform(30, 220, N)
        names = [f"p{row // 2}" for row in range(N)] if kind == "units" else [f"p{row}" for row in range(N)]
        sick = draw.integers(0, 2, N)
        for row in range(N):
            if names[row] == "p2":
                age[row], pulse[row], sick[row] = 20 + 70 * theirs, 220 - 190 * theirs, int(theirs > 0.5)
        cells: dict[str, Any] = {"age": list(map(str, age)), "pulse": list(map(str, pulse))}
        cells |= {"sick": list(map(str, sick)), "patient": names}
        unit = {"unit": "patient", "records_per_unit": 2} if kind == "units" else {}
        body = {"features": FEATURES, "target": TARGET, **unit}
        return Table(cells, N), schema_from_json({**body, **more}), holding({**body, "units": 6 if unit else N})
    values = np.round(draw.uniform(-1, 1, (N, 40 if kind != "features" else 64)), 3)
    labels = [str(each) for each in draw.integers(0, 2, N)]
    values[2], labels[2] = theirs, str(int(theirs > 0.5))
    uniform = {**UNIFORM, "count": values.shape[1]}
    body = {"features": uniform, "target": TARGET}
    if kind == "sparse":
        starts = np.arange(0, 2 * N + 1, 2)
        columns = np.tile([3, 17], N)
        columns[4:6] = (1, 30) if theirs > 0.5 else (5, 6)
        held = Sparse(labels, starts, columns.astype(np.int64), values[:, :2].ravel())
        return (
            held,
            schema_from_json({**body, "nonzeros": 2, **more}),
            holding({**body, "units": N, "nonzeros": 2}, "libsvm"),
        )
    transform = {"transform": [PICTURE]} if kind == "features" else {}
    data = Dense(values, np.array(labels))
    return data, schema_from_json({**body, **transform, **more}), holding({**body, "units": N}, "npz")


def holding(body: dict[str, Any], file_format: str = "csv") -> Holding:
    return holding_from({**body, "format": file_format})


def records(kind: str, theirs: float, *excluded: str) -> Records:
    data, schema, held = made(kind, theirs)
    null = null_rows(data, held, frozenset(excluded)) if excluded else None
    return encode(data, schema, held.layout, null=null)


def party(held: Records, sampler: Any, clip: Clip, releases: int = 3, model: Any = None) -> Contributor:
    model = model or Linear(held.rows.dimension, Logistic())
    mechanism = Mechanism((Cohort("a", sampler),), clip, 20.0, releases, Unit(held.unit_column))
    return Contributor("a", held, model, Encoding.of(mechanism, 41, model.largest_limit), Repeated())


def answers(held: Records, sampler: Any) -> list[list[int]]:
    """To every kind of question, of both kinds of models."""
    columns = held.rows.dimension
    draw = np.random.default_rng(8)
    theta, other = draw.normal(0, 1, columns), draw.normal(0, 1, columns)
    shift, scale = draw.normal(0, 0.1, columns), np.full(columns, 1.5)
    found = []
    for query in (
        Query(1, (theta, other), "gradient"), Query(1, (shift, scale, theta, other), "framed gradient"),
    ):  # fmt: skip
        found.append(party(held, sampler, MomentumClip(1.0, 0.5, 0.5)).contribution(query))
    for query in (
        Query(0, (theta,)), Query(0, (theta, other), "losses"), Query(0, (theta,), "norms", 4.0),
        Query(0, (shift, scale), "means"), Query(0, (shift, scale), "square means"),
        Query(0, (shift, scale, theta), "framed norms", 4.0),
    ):  # fmt: skip
        found.append(party(held, sampler, GradientClip(1.0)).contribution(query))
    network = Perceptron(columns, (3,), Logistic())
    point, second = draw.normal(0, 1, network.dimension), draw.normal(0, 1, network.dimension)
    for query in (Query(0, (point,)), Query(0, (point, second), "losses"), Query(0, (point,), "norms", 4.0)):
        found.append(party(held, sampler, GradientClip(1.0), model=network).contribution(query))
    return [each.tolist() for each in found]


WHOM = {"rows": "3", "units": "p2", "sparse": "3", "dense": "3", "features": "3"}


@pytest.mark.parametrize("sampling", ["all", "fixed", "poisson"])
@pytest.mark.parametrize("kind", WHOM)
def test_an_excluded_units_records_have_no_influence_to_the_bit(kind: str, sampling: str) -> None:
    units = records(kind, 0.1).units
    sampler = {
        "all": FixedSize(units, units),
        "fixed": FixedSize(units, units - 1),
        "poisson": Poisson(units, units - 1, units),
    }
    one, another = (answers(records(kind, theirs, WHOM[kind]), sampler[sampling]) for theirs in (0.1, 0.9))
    assert one == another
    # And it is the list that does it: without it the same two people's answers differ.
    assert answers(records(kind, 0.1), sampler["all"]) != answers(records(kind, 0.9), sampler["all"])


@pytest.mark.parametrize("kind", WHOM)
def test_what_is_left_is_the_sum_over_everybody_else(kind: str) -> None:
    """Answers are sums of integers: those of all are those of the others and of the excluded one."""
    whole, less = records(kind, 0.1), records(kind, 0.1, WHOM[kind])
    everybody = {f"p{n}" for n in range(6)} if kind == "units" else set(map(str, range(1, N + 1)))
    alone = records(kind, 0.1, *(everybody - {WHOM[kind]}))
    sampler = FixedSize(whole.units, whole.units)
    for all_of_them, others, theirs in zip(*(answers(each, sampler) for each in (whole, less, alone)), strict=True):
        assert all_of_them == [a + b for a, b in zip(others, theirs, strict=True)]


def test_a_local_fit_of_an_institution_is_of_everybody_else() -> None:
    local = LocalFit("descent", 20, 0.2, 0.1, 4.0)
    found = []
    for theirs in (0.1, 0.9):
        held = records("rows", theirs, "3")
        clip = GradientClip(250.0)
        found.append(party(held, FixedSize(N, N), clip, 1).contribution(Query(0, (), "solution", local=local)).tolist())
    assert found[0] == found[1]
    assert any(found[0])


def test_the_draw_of_a_batch_knows_nothing_of_the_list() -> None:
    for sampler in (FixedSize(N, 5), Poisson(N, 6, N)):
        drawn = []
        for excluded in ((), ("3",)):
            one = party(records("rows", 0.1, *excluded), sampler, GradientClip(1.0))
            one.contribution(Query(0, (np.ones(3),)))
            assert one.drawn is not None
            drawn.append(one.drawn[1])
            assert one.records.units == N  # the declared number stays
        assert np.array_equal(drawn[0].indices, drawn[1].indices)
        assert np.array_equal(drawn[0].present, drawn[1].present)


def test_rows_of_the_excluded_are_zero_wherever_they_are_kept() -> None:
    dense, sparse = records("rows", 0.9, "3"), records("sparse", 0.9, "3")
    assert isinstance(dense.rows, DenseRows)
    assert not dense.rows.values[2].any()
    assert dense.rows.values[[0, 1, *range(3, N)]].any(axis=1).all()
    assert isinstance(sparse.rows, SparseRows | DenseRows)
    assert sparse.rows.norms.squared[2] == 0
    assert dense.targets[2] == 0
    part = of_units(dense, np.array([2, 4]))
    assert part.null is not None
    assert part.null.tolist() == [True, False]


def test_a_list_is_one_identifier_on_a_line() -> None:
    held = parsed(b"\xef\xbb\xbf# objected\r\n\r\n p1 \r\n #7\r\np1\n", "excluded.txt")
    assert held == ExclusionList(frozenset({"p1", "#7"}))
    assert parsed(held.text().encode(), "x") == held
    numbers = ExclusionList(frozenset({"3", "12"}), "3f" * 8)
    assert parsed(numbers.text().encode(), "x") == numbers
    for wrong in (b"\xff", b"a\nb\x0bc\n", b"x" * 1001, f"{numbers.text()}{numbers.text()}".encode()):
        with pytest.raises(DataError, match=r"excluded\.txt") as caught:
            parsed(wrong, "excluded.txt")
        assert "xxx" not in str(caught.value)
    for given in ("", " ", "a\nb", "x" * 1001):
        with pytest.raises(DataError, match="identifier 2"):
            checked(["p1", given])


def test_a_list_that_is_named_and_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_list(tmp_path / "excluded.txt")


def test_numbers_count_for_the_files_that_they_were_written_for_alone() -> None:
    data, _, held = made("rows", 0.1)
    assert matched(data, held, frozenset({"3", "99"})) == 1
    assert missing(data, held, frozenset({"3", "99"})) == ["99"]
    files = ["aa" * 32]
    ExclusionList(frozenset({"3"}), files_mark(files)).require_of(held, files, "excluded.txt")
    ExclusionList().require_of(held, files, "excluded.txt")
    for of in ("", files_mark(["bb" * 32])):
        with pytest.raises(DataError, match=files_mark(files)):
            ExclusionList(frozenset({"3"}), of).require_of(held, files, "excluded.txt")
    _, _, by_patient = made("units", 0.1)
    ExclusionList(frozenset({"p2"})).require_of(by_patient, files, "excluded.txt")
    assert Layout() == held.layout
