"""A party beside its two servers, for the tests that look at both sides."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aggregator.test_pool import pools
from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures
from tests.support.openings import Federation


@pytest.fixture
def federation(tmp_path: Path) -> Iterator["Federation"]:
    with pools() as (a, b, _):
        yield Federation(tmp_path, [a, b])
