"""Fits over the workers of a cluster have the figures of fits in one process, to the bit."""

import sys
from pathlib import Path
from typing import Any

import pytest

from parley.compute.cluster import Cluster
from parley.compute.errors import LostError
from parley.compute.fits import MOST_STARTS, FitPool
from parley.study import study
from parley.study.errors import StudyError
from parley.study.study import Study

ROWS = 400


def small() -> Study:
    named = [{"name": name, "low": 0, "high": 1} for name in "abc"]
    target = {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]}
    body = {"intercept": True, "target": target, "features": named}
    return study.Study(body, model="logistic", epsilon=1.0)


def test_a_backend_that_is_none_is_refused_before_anything_is_charged() -> None:
    given = small()
    with pytest.raises(StudyError, match="use local or ray"):
        given.simulate(given.made_up(ROWS), backend="dask")
    with pytest.raises(StudyError, match="use local or ray"):
        given.sweep(given.made_up(ROWS), epsilon=[1.0], backend="dask")


def test_where_no_cluster_starts_that_is_said() -> None:
    with FitPool(Cluster(workers=1), (sys.executable, "-c", "pass")) as pool, pytest.raises(LostError):
        pool.spread(abs, [1])


def test_a_start_that_a_busy_machine_has_missed_is_tried_again(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    missed = f"open({str(tried)!r}, 'a').write('once ')"
    with FitPool(Cluster(workers=1), (sys.executable, "-c", missed)) as pool, pytest.raises(LostError):
        pool.spread(abs, [1])
    assert tried.read_text() == MOST_STARTS * "once "


@pytest.mark.slow
def test_seeds_and_epsilons_of_hundreds_of_parties_are_as_in_one_process() -> None:
    pytest.importorskip("ray")
    given = small()
    rows = given.made_up(ROWS * 3)
    places = [slice(6 * place, 6 * place + 6) for place in range(200)]
    parties = {f"site-{place.start}": {name: cells[place] for name, cells in rows.items()} for place in places}
    test = given.made_up(ROWS, seed=1)
    kinds: dict[str, Any] = {"epsilon": [1.0, 3.0], "test": test, "seeds": 2, "repeatable": True, "public": True}
    here = given.sweep(parties, **kinds)
    there = given.sweep(parties, **kinds, workers=2, backend="ray")
    assert [each.fit.theta.tolist() for each in there.results] == [each.fit.theta.tolist() for each in here.results]
    assert [each.figures for each in there.results] == [each.figures for each in here.results]
    assert len(there.results[0].fit.parties) == 200
