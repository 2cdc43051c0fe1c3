"""A study from Python: immutable, checked in the words of the document, light to import."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import parley.study
from parley.algorithms.errors import AlgorithmError
from parley.errors import ParleyError
from parley.federation.manifest import Operator
from parley.learning.errors import ModelError
from parley.study.errors import StudyError
from parley.study.study import Study

COLUMNS: dict[str, Any] = {
    "intercept": True,
    "features": [{"name": "age", "low": 0, "high": 100}, {"name": "dose", "low": 0, "high": 5}],
    "target": {"name": "ill", "kind": "binary", "positive": ["1"], "negative": ["0"]},
}


def test_importing_it_loads_numpy_and_no_server_no_accountant_no_data_frames() -> None:
    code = (
        "import os, sys; before = dict(os.environ)\n"
        "from parley import study\n"
        "assert 'numpy' not in sys.modules, 'names are looked up when they are asked for'\n"
        f"study.Study({COLUMNS!r}, epsilon=1.0), study.Result, study.Plan, study.load, study.read\n"
        "heavy = {'grpc', 'scipy', 'pandas', 'polars', 'pyarrow', 'sklearn', 'matplotlib', 'typer', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)), [m for m in sys.modules if m.startswith('parley.node')])\n"
        "assert dict(os.environ) == before\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[] []\n"), done.stderr


def test_every_public_name_is_there_and_no_other() -> None:
    for name in parley.study.__all__:
        assert getattr(parley.study, name) is not None
    assert dir(parley.study) == sorted(parley.study.__all__)
    with pytest.raises(AttributeError, match=r"parley\.study has no 'Stud'"):
        _ = parley.study.Stud


def test_equal_studies_are_equal_and_none_can_be_changed() -> None:
    one, other = Study(COLUMNS, epsilon=1), Study(COLUMNS, epsilon=1.0, model={"kind": "logistic"})
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(AttributeError):
        one.epsilon = 50.0  # type: ignore[misc]
    one.model["kind"] = "linear"
    one.algorithm["name"] = "storm"
    one.parties["a"] = 3
    assert one == other
    stricter = one.replaced(epsilon=0.5)
    assert (one.epsilon, stricter.epsilon) == (1.0, 0.5)
    assert stricter.replaced(epsilon=1.0) == one


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"epsilon": 0}, "privacy.epsilon: is 0: give a number above 0"),
        ({"epsilon": float("nan")}, "privacy.epsilon"),
        ({"delta": 0.7}, "privacy.delta"),
        ({"accountant": "mine"}, "privacy.accountant"),
        ({"own": 0.3}, "noise.own: is 0.3: use 0, 0.25"),
        ({"own": 0.5, "worst_epsilon": 3.0}, "one of them chooses"),
        ({"security": "rational"}, "noise.security"),
        ({"security": "covert", "own": 0}, "noise.own: is 0 and security is covert"),
        ({"security": "covert", "audit": "1/3"}, "noise.audit: is '1/3': use 1/16"),
        ({"security": "covert", "audit": "1"}, "noise.audit"),
        ({"audit": "1/8"}, "noise.audit"),
        ({"precision": "low"}, "noise.precision"),
        ({"run": "A run"}, "run: is 'A run'"),
        ({"parties": {"a": 0}}, r"parties\[0\].units: is 0"),
        ({"parties": {"Hospital A": 5}}, r"parties\[0\].name"),
        ({"parties": {"a": 5}, "data_sets": {"a": "X"}}, r"parties\[0\].data_set"),
        ({"parties": {"a": 5}, "data_sets": {"b": "x"}}, "data_sets names 'b', which is none of the parties"),
        ({"aggregators": [{"name": "north", "legal_entity": "N"}]}, "give exactly two"),
        ({"aggregators": [{"name": "north"}] * 2}, r"legal_entity: is missing"),
        ({"minimum_parties": 1}, "rounds.minimum_parties"),
        ({"model": "tree"}, "kind is 'tree'"),
        ({"model": "linear"}, "predicts a number target"),
        ({"algorithm": "sgd"}, "no algorithm 'sgd'"),
        ({"regulariser": {"kind": "l3", "weight": 1.0}}, "l3"),
        ({"data": {"trian": ["a.csv"]}}, r"data.trian: is unknown \(did you mean 'train'\?\)"),
    ],
)
def test_a_slip_is_named_as_the_document_names_it(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ParleyError, match=says):
        Study(COLUMNS, **{"epsilon": 1.0, **arguments})


def test_all_slips_are_named_at_once() -> None:
    with pytest.raises(StudyError) as refused:
        Study(COLUMNS, epsilon=0, own=0.3, run="A run")
    assert all(word in str(refused.value) for word in ("privacy.epsilon", "noise.own", "run: is"))
    with pytest.raises(ParleyError) as both:
        Study(COLUMNS, epsilon=1.0, model="tree", algorithm="sgd")
    assert "tree" in str(both.value)
    assert "sgd" in str(both.value)
    assert not isinstance(both.value, ModelError | AlgorithmError)


def test_a_study_is_what_is_said_of_it(tmp_path: Path) -> None:
    operators = (Operator("north", "N"), Operator("south", "S"))
    made = Study(COLUMNS, epsilon=1.0, aggregators=operators, coordinator={"name": "lead", "legal_entity": "L"})
    assert made.aggregators == operators
    assert made.coordinator == Operator("lead", "L")
    assert repr(made) == "Study(logistic of 'ill' on 2 columns, auto, epsilon 1)"
    assert made.parts.own == 0.5
    assert made.replaced(security="malicious").parts.own == 1.0
    with pytest.raises(StudyError, match="a study has no 'epsilom'"):
        made.replaced(epsilom=2)


def test_a_central_method_may_be_named_and_says_where_it_runs() -> None:
    made = Study(COLUMNS, epsilon=1.0, algorithm={"name": "amp", "strength": 0.1, "row_norm": 1.0})
    assert made.central
    for door in (lambda: made.plan(100), lambda: made.simulate({"age": [], "dose": [], "ill": []})):
        with pytest.raises(AlgorithmError, match="runs in `parley simulate`"):
            door()
