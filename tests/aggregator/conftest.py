"""Two servers: in one process with their stores, or as processes; and a party beside them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aggregator.test_pool import pools
from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures
from tests.support.both_links import identities  # noqa: F401  fixtures
from tests.support.histories import world  # noqa: F401  fixtures
from tests.support.openings import Federation as Pair
from tests.support.servers import servers  # noqa: F401  fixtures


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Pair]:
    with pools() as (a, b, _):
        yield Pair(tmp_path, [a, b])
