"""Where a party's sums are computed is its operator's word alone."""

import threading

import pytest

from parley.compute.cluster import Cluster
from parley.party.cluster import over_cluster
from parley.party.errors import StoppedError
from tests.support.computed import setting
from tests.support.documents import manifest


def test_without_the_table_a_party_computes_itself() -> None:
    contributor = setting("logistic").contributor()
    assert over_cluster(None, manifest(), contributor, threading.Event()) is None
    assert contributor.engine is None


def test_a_process_that_is_to_end_starts_no_cluster() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        over_cluster(Cluster(workers=1), manifest(), setting("logistic").contributor(), stop)
