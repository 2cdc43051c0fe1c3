"""How often a round may be noised anew."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.aggregator.opening import MOST_NOISINGS, NoisedTooOftenError
from parley.aggregator.opening_store import Opened, OpeningStore
from parley.attacks.lying_server import Servers, servers, uploads
from parley.attacks.servers import LATTICE, Forgetful, request
from parley.mpc.errors import MpcError


@pytest.fixture
def two(tmp_path: Path) -> Any:
    with servers(tmp_path, {}, 512) as made:
        yield made


def put_forgetful(two: Servers, folder: Path, role: int) -> OpeningStore:
    two.stores[role].close()
    two.stores[role] = two.aggregators[role]._store = Forgetful(folder / f"{role}.sqlite")
    return two.stores[role]


@pytest.mark.parametrize("role", [0, 1])
def test_a_round_is_noised_four_times_and_then_lost(two: Servers, tmp_path: Path, role: int) -> None:
    put_forgetful(two, tmp_path, role)
    heard: list[int] = []
    honest = two.aggregators[1 - role]
    opened: list[Opened | MpcError] = []
    inner = honest.open
    honest.open = lambda *a, **k: inner(*a, **{**k, "agreed": heard.append})  # type: ignore[method-assign]
    for _ in range(MOST_NOISINGS + 2):
        opened = two.open(request(), uploads(LATTICE, {"a": np.ones(8), "b": np.ones(8)}))
    assert isinstance(opened[1 - role], NoisedTooOftenError)
    assert heard == [0, 1, 2, 3]  # what the trail is told: which noising it is
    assert two.stores[1 - role].wasted("attacked", 0) == MOST_NOISINGS


def test_how_often_is_on_disk_and_other_rounds_are_not_touched(two: Servers, tmp_path: Path) -> None:
    put_forgetful(two, tmp_path, 1)
    for _ in range(3):
        two.open(request(), uploads(LATTICE, {"a": np.ones(8), "b": np.ones(8)}))
    two.stores[0].close()
    two.stores[0] = two.aggregators[0]._store = OpeningStore(tmp_path / "0.sqlite")
    assert two.stores[0].wasted("attacked", 0) >= 2  # the third is prepared, and not discarded yet
    assert two.stores[0].wasted("attacked", 1) == two.stores[0].wasted("other", 0) == 0


def test_the_others_word_does_not_make_a_committed_share_again(two: Servers, tmp_path: Path) -> None:
    made = {"a": np.ones(8), "b": np.ones(8)}
    first = two.open(request(), uploads(LATTICE, made))
    assert isinstance(first[0], Opened)
    two.stores[1].close()
    (tmp_path / "1.sqlite").unlink()
    two.stores[1] = two.aggregators[1]._store = OpeningStore(tmp_path / "1.sqlite")  # it says that it has nothing
    again = two.open(request(), uploads(LATTICE, made))
    assert all(isinstance(each, MpcError) for each in again)
    kept = two.stores[0].find("attacked", 0)
    assert kept is not None
    assert kept.opened == first[0]
