"""Who is let in: a site of one page and one form behind the door, without a socket."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from parley.web.access import SESSION_SECONDS, Session, Sessions
from parley.web.door import MOST_FORM_BYTES, Door

TOKEN = "t" * 43


class Site:
    """With a clock that a test turns."""

    def __init__(self, secure: bool = False) -> None:
        self.now, self.changed = 0.0, list[str]()
        self.sessions = Sessions(TOKEN, lambda: self.now)
        self.door = Door(self.sessions, 7480, secure, lambda wrong: f"token? {wrong}")
        routes = [
            *self.door.routes(),
            Route("/", self.door.inside(self.page)),
            Route("/change", self.door.own(self.change), methods=["POST"]),
        ]
        base = "https://127.0.0.1:7480" if secure else "http://127.0.0.1:7480"
        self.client = TestClient(Starlette(routes=routes), base_url=base, follow_redirects=False)

    async def page(self, request: Request, session: Session) -> Response:
        return PlainTextResponse(session.csrf)

    async def change(self, request: Request, session: Session) -> Response:
        self.changed.append(request.state.form["what"])
        return PlainTextResponse("done")

    def enter(self) -> str:
        """And the word that this session's pages know."""
        assert self.client.post("/login", data={"token": TOKEN}).headers["location"] == "/"
        word: str = self.client.get("/").text
        return word


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    with made.client:
        yield made


def test_outside_there_is_only_the_question_for_the_token(site: Site) -> None:
    assert site.client.get("/login").text == "token? "
    for answer in (site.client.get("/"), site.client.post("/change", data={"what": "x"}), site.client.post("/logout")):
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert site.changed == []


@pytest.mark.parametrize("form", [{}, {"token": ""}, {"token": "t" * 42}, {"tokens": TOKEN}])
def test_a_wrong_token_opens_nothing_and_sets_no_cookie(site: Site, form: dict[str, str]) -> None:
    answer = site.client.post("/login", data=form)
    assert (answer.status_code, answer.text) == (403, "token? That is not this node's token.")
    assert "set-cookie" not in answer.headers
    assert site.client.get("/").status_code == 303


def test_who_is_in_is_not_asked_again_until_the_session_is_over(site: Site) -> None:
    site.enter()
    assert site.client.get("/login").headers["location"] == "/#"
    site.now = SESSION_SECONDS + 1
    assert site.client.get("/").headers["location"] == "/login"
    assert site.client.get("/login").status_code == 200


def test_a_form_needs_the_word_of_its_own_session(site: Site) -> None:
    first = site.enter()
    for word in ("", "x" * len(first)):
        assert site.client.post("/change", data={"what": "a", "csrf": word}).status_code == 403
    assert site.client.post("/change", data={"what": "a"}).status_code == 403
    assert site.client.post("/change", data={"what": "a", "csrf": first}).text == "done"
    second = site.enter()
    assert site.client.post("/change", data={"what": "b", "csrf": first}).status_code == 403
    assert site.client.post("/change", data={"what": "c", "csrf": second}).text == "done"
    assert site.changed == ["a", "c"]


def test_leaving_needs_the_word_too_and_ends_the_session_on_the_server(site: Site) -> None:
    word = site.enter()
    cookies = dict(site.client.cookies)
    assert site.client.post("/logout").status_code == 403
    assert site.client.get("/").status_code == 200
    assert site.client.post("/logout", data={"csrf": word}).headers["location"] == "/login"
    site.client.cookies.update(cookies)
    assert site.client.get("/").status_code == 303


def test_a_form_is_read_no_further_than_a_form_is_long(site: Site) -> None:
    assert site.client.post("/login", content=b"token=" + b"t" * MOST_FORM_BYTES).status_code == 413
    padding = MOST_FORM_BYTES - len(f"token={TOKEN}&p=")
    assert site.client.post("/login", content=f"token={TOKEN}&p={'x' * padding}").status_code == 303


def test_the_cookie_is_of_one_port_and_where_there_is_tls_of_tls_alone(site: Site) -> None:
    said = site.client.post("/login", data={"token": TOKEN}).headers["set-cookie"]
    assert said.startswith("parley-7480=")
    assert "Secure" not in said
    secure = Site(secure=True)
    said = secure.client.post("/login", data={"token": TOKEN}).headers["set-cookie"]
    assert said.startswith("__Host-parley-7480=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(said.split("; "))
    assert "domain" not in said.lower()
