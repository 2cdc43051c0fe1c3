"""A small federation of real processes, for every test that looks at the whole."""

from pathlib import Path

import pytest

from parley.bench.train_data import study, write_party
from parley.federation.manifest import Manifest
from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures

PARTIES, DIMENSION, ROUNDS = 3, 40, 12


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    """Calibrated once: seconds."""
    return study("small", PARTIES, DIMENSION, ROUNDS)


@pytest.fixture
def data(tmp_path: Path) -> dict[str, list[Path]]:
    """Made-up records of each party."""
    found = {}
    for place in range(PARTIES):
        path = tmp_path / f"party-{place + 1}.libsvm"
        write_party(path, place, DIMENSION)
        found[f"party-{place + 1}"] = [path]
    return found
