"""A request that makes no sense is refused before anything is sent."""

import pytest

from parley.aggregator.opening_store import RefusedError
from parley.mpc.errors import ConfigurationError, RangeError
from parley.mpc.ring import Lattice
from tests.support.openings import Federation, contributions, request


def test_a_senseless_request_is_refused() -> None:
    for changes in ({"dimension": 0}, {"minimum_parties": 0}):
        with pytest.raises(ConfigurationError):
            request(**changes).digest()
    with pytest.raises(ConfigurationError):
        request(-1).digest()


def test_a_lattice_of_another_preset_is_refused_before_anything_is_sent(federation: Federation) -> None:
    """Noise of a pool of scale 2^41 read as scale 2^47 would be 64 times too small."""
    wrong = request(lattice=Lattice(2.0, 16, 47))
    results = federation.open([wrong] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RefusedError) for result in results)
    assert "same preset" in str(results[0])
    assert [pool.level().used for pool in federation.noise] == [0, 0]


def test_a_sum_that_could_leave_the_ring_is_refused(federation: Federation) -> None:
    results = federation.open([request(most_records=10**9)] * 2, contributions({"a": 1.0, "b": 2.0}))
    assert all(isinstance(result, RangeError) for result in results)
