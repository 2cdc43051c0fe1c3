"""A client of the application, without a socket."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from parley.dashboard import pages
from parley.dashboard.server import assemble
from parley.federation.manifest import Manifest
from parley.web.access import token_in
from parley.web.listener import Settings
from tests.support.folders import FakeOperator, coordinator_folder, place_of

HOME = "http://127.0.0.1:7480"


class Browser:
    """A client, and what the pages it got were made of."""

    def __init__(self, state: Path, document: Manifest, operator: FakeOperator, settings: Settings) -> None:
        self.state, self.document, self.operator = state, document, operator
        self.app = assemble(settings, place_of(state, operator), 7480)
        self.token = token_in(state)
        base = HOME.replace("http", "https") if settings.secure else HOME
        self.client = TestClient(self.app, base_url=base, follow_redirects=False)
        self.views: list[tuple[str, Any]] = []

    def login(self) -> "Browser":
        assert self.client.post("/login", data={"token": self.token}).status_code == 303
        return self

    def csrf(self) -> str:
        """The word that the session's pages know."""
        page: str = self.client.get(f"/runs/{self.document.run}/stop").text
        return page.split('name="csrf" value="')[1].split('"')[0]


Make = Callable[..., Browser]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Make]:
    """Makes one over a folder with so many rounds."""
    made: list[Browser] = []

    def make(rounds: int | None = 10, operator: FakeOperator | None = None, **settings: Any) -> Browser:
        state, document = coordinator_folder(tmp_path / f"node-{len(made)}", rounds)
        found = Browser(state, document, operator or FakeOperator(), Settings("127.0.0.1", 7480, **settings))
        pages.watchers.append(lambda template, view: found.views.append((template, view)))
        found.client.__enter__()  # one event loop for all its requests
        made.append(found)
        return found

    yield make
    for each in made:
        each.client.portal.call(each.app.state.wiring.accounts.close)  # type: ignore[union-attr]
        each.client.__exit__(None, None, None)
        each.app.state.wiring.store.close()
    pages.watchers.clear()
