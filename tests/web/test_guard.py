"""What every answer carries, and which requests get none."""

import pytest

from tests.support.browser import Make


@pytest.mark.parametrize("path", ["/", "/login", "/nothing", "/static/parley.css", "/metrics", "/runs/heart-1"])
def test_every_answer_has_a_strict_policy(browser: Make, path: str) -> None:
    made = browser().login()
    answer = made.client.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "server" not in answer.headers


def test_a_foreign_name_for_this_machine_gets_nothing(browser: Make) -> None:
    made = browser().login()
    for host in ("evil.example:7480", "127.0.0.1.evil.example", ""):
        assert made.client.get("/", headers={"host": host}).status_code == 421
    for host in ("localhost:7480", "127.0.0.1", "[::1]:7480"):
        assert made.client.get("/login", headers={"host": host}).status_code in (200, 303)


def test_a_form_that_never_ends_is_cut(browser: Make) -> None:
    assert browser().client.post("/login", content=b"token=" + b"x" * 100_000).status_code == 413
