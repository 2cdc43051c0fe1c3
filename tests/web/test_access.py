"""Who may look, and who may change something."""

import stat
from pathlib import Path

import pytest

from parley.node.errors import NodeError
from parley.web.access import SESSION_SECONDS, TOKEN_FILE, Sessions, token_in
from tests.support.browser import HOME, Make
from tests.support.folders import FakeOperator

CLOSED = ["/", "/runs/heart-1", "/runs/heart-1/privacy", "/runs/heart-1/stop", "/runs/heart-1/events", "/runs/none"]


def test_the_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    token = token_in(tmp_path)
    assert len(token) >= 43
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert token_in(tmp_path) == token


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    token_in(tmp_path)
    (tmp_path / TOKEN_FILE).chmod(0o640)
    with pytest.raises(NodeError, match="others can read"):
        token_in(tmp_path)


def test_a_session_ends_with_its_time_and_with_logout() -> None:
    now = [0.0]
    sessions = Sessions("t" * 43, lambda: now[0])
    assert sessions.begin("t" * 42) is None
    cookie = sessions.begin(" " + "t" * 43 + "\n")
    assert sessions.of(cookie) is not None
    now[0] = SESSION_SECONDS + 1
    assert sessions.of(cookie) is None
    other = sessions.begin("t" * 43)
    sessions.end(other)
    assert sessions.of(other) is None


@pytest.mark.parametrize("path", CLOSED)
def test_nobody_sees_a_page_without_the_token(browser: Make, path: str) -> None:
    made = browser()
    answer = made.client.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert made.client.post("/login", data={"token": "x" * 43}).status_code == 403
    assert made.client.get(path).status_code == 303
    assert made.client.get("/metrics").status_code == 401


def test_the_cookie_is_for_this_site_and_no_script(browser: Make) -> None:
    plain = browser()
    said = plain.client.post("/login", data={"token": plain.token}).headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    secure = browser(certificate=Path("x"), key=Path("x"))
    said = secure.client.post("/login", data={"token": secure.token}).headers["set-cookie"].lower()
    assert said.startswith("__host-parley")
    assert "; secure" in said
    assert "domain" not in said


def test_signing_out_ends_the_session_on_the_server(browser: Make) -> None:
    made = browser().login()
    cookie = dict(made.client.cookies)
    assert made.client.post("/logout", data={"csrf": made.csrf()}).status_code == 303
    made.client.cookies.update(cookie)
    assert made.client.get("/").status_code == 303


def test_a_run_stops_only_by_a_form_of_this_session(browser: Make) -> None:
    made = browser().login()
    address = "/runs/heart-1/stop"
    right = {"how": "rest", "csrf": made.csrf()}
    for form in ({"how": "rest"}, {"how": "rest", "csrf": ""}, {"how": "rest", "csrf": "x" * 43}):
        assert made.client.post(address, data=form).status_code == 403
    foreign = [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
    for headers in foreign:
        assert made.client.post(address, data=right, headers=headers).status_code == 403
    assert made.client.get(address + "?how=rest").status_code == 200
    assert made.operator.asked == []
    answer = made.client.post(address, data=right, headers={"origin": HOME, "sec-fetch-site": "same-origin"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/heart-1")
    assert made.operator.asked == [("stop", "heart-1", "rest")]


def test_to_end_a_run_for_good_its_name_is_typed(browser: Make) -> None:
    made = browser().login()
    form = {"how": "final", "csrf": made.csrf()}
    refused = made.client.post("/runs/heart-1/stop", data=form)
    assert refused.status_code == 422
    assert "type its name" in refused.text
    assert made.operator.asked == []
    assert made.client.post("/runs/heart-1/stop", data={**form, "confirm": "heart-1"}).status_code == 303
    assert made.operator.asked == [("stop", "heart-1", "final")]


def test_a_stop_that_the_coordinator_refuses_says_why(browser: Make) -> None:
    made = browser(operator=FakeOperator("no coordinator is running in lead")).login()
    answer = made.client.post("/runs/heart-1/stop", data={"how": "rest", "csrf": made.csrf()})
    assert answer.status_code == 409
    assert "no coordinator is running" in answer.text
