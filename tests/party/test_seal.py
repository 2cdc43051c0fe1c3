"""Seals on a party's files."""

import pytest

from tests.support.documents import manifest
from tests.support.memories import files, joined, state
from tests.support.party_process import EVERYONE, Running
from tests.support.stage import Stage
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")


def test_a_seal_of_another_ledger_is_none(stage: Stage) -> None:
    """Whose rows these are is said under a salt that is gone: under the new one nobody would be recognised."""
    for path in files(stage, "ledger.sqlite*"):
        path.unlink()
    made = manifest(**EVERYONE)
    stage.offer(made)
    with Running(stage):
        until(lambda: state(stage) == "waiting")
        assert not stage.coordinator.joins
        stage.seal()
        joined(stage, made)
