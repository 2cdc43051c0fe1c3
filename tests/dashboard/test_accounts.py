"""What was spent, counted by both accountants, and what is to come."""

import pytest

from tests.support.browser import Make
from tests.support.pages import wait_for


@pytest.mark.slow
def test_privacy_spent_is_counted_by_both_accountants_and_projected(browser: Make) -> None:
    made = browser(10).login()
    page = wait_for(made, "/runs/heart-1?part=live", "chart-spent")
    view = [view for template, view in made.views if template == "live.html"][-1]
    spent = view.spent
    assert 0 < spent.pld < spent.pld_end <= spent.claimed
    assert spent.pld < spent.rdp < spent.rdp_end
    assert spent.upto == 11  # the round under way may have been opened already
    assert spent.party == "hospital-a"
    assert "projected" in page
