"""Rounds as the dashboard reads them from the books."""

from parley.coordinator.store import RunStore
from parley.dashboard.history import Histories
from tests.support.browser import Make


def test_rounds_are_read_once(browser: Make) -> None:
    made = browser(10)
    store = RunStore(made.state / "runs.sqlite", read_only=True)
    histories = Histories(store)
    first = histories.of(made.document.digest).records[0]
    assert histories.of(made.document.digest).records[0] is first
    store.close()
