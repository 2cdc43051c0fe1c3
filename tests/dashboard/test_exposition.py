"""Metrics, and who may read them."""

from tests.support.browser import Make


def test_metrics_need_the_token_unless_node_toml_says_otherwise(browser: Make) -> None:
    made = browser()
    assert made.client.get("/metrics", headers={"authorization": f"Bearer {made.token}"}).status_code == 200
    assert browser(open_metrics=True).client.get("/metrics").status_code == 200
