"""Noise pools, as the servers tell of them."""

from tests.support.browser import Make
from tests.support.pages import wait_for


def test_pools_say_how_full_they_are(browser: Make) -> None:
    made = browser(10).login()
    made.client.get("/runs/heart-1")
    page = wait_for(made, "/runs/heart-1?part=live", "812,300 of 1,048,576")
    assert "2,048 lost" in page
