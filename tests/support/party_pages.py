"""A party's page over a folder that a real party has filled: its client, without a socket."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from starlette.testclient import TestClient

from parley.federation.manifest import Manifest
from parley.page.app import Wiring, application
from parley.page.folder import Folder
from parley.page.process import TOKEN, page_node
from parley.web.access import Sessions, token_in
from parley.web.guard import LOOPBACK
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.memories import state
from tests.support.party_process import EVERYONE, Running, charged
from tests.support.reports import PEOPLE
from tests.support.stage import Stage
from tests.support.until import until

HOME = "http://127.0.0.1:7490"
STRICT = PARTY_POLICY.replace('models = ["logistic"]', 'models = ["linear"]')
"""Holds one thing against every run of these tests, which a person may wave through."""


def first() -> Manifest:
    return manifest(**EVERYONE, **PEOPLE)


def asked(**changes: Any) -> Manifest:
    """The run that waits for a person."""
    return manifest(**{"run": "heart-2", **EVERYONE, **PEOPLE, **changes})


def finished(stage: Stage) -> None:
    """One round of heart-1, and the end by both servers' word."""
    stage.offer(first())
    with Running(stage):
        charged(stage, first())
        stage.finish(stage.ends(first(), 1))
        until(lambda: state(stage) == "settled")


def states(stage: Stage) -> dict[str, str]:
    return {held.run: held.state for held in Folder(page_node(stage.node)).read().states}


def waiting(stage: Stage, made: Manifest | None = None) -> Manifest:
    """heart-2 is proposed to a policy that does not admit it."""
    made = made or asked()
    (stage.node / "policy.toml").write_text(STRICT)
    stage.coordinator.current = None
    stage.offer(made)
    with Running(stage):
        until(lambda: states(stage).get(made.run) == "waiting")
    return made


@dataclass
class Visitor:
    """A browser, signed in."""

    folder: Path
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        node = page_node(self.folder)
        self.token = token_in(node.state, TOKEN)
        self.sessions = Sessions(self.token)
        self.app = application(Wiring(Folder(node), self.sessions, LOOPBACK, 7490))
        self.client = TestClient(self.app, base_url=HOME, follow_redirects=False, raise_server_exceptions=False)

    def __enter__(self) -> Self:
        self.client.__enter__()
        assert self.client.post("/login", data={"token": self.token}).status_code == 303
        return self

    def __exit__(self, *_: object) -> None:
        assert self.client.portal is not None
        self.client.portal.call(self.app.state.pages.close)
        self.client.__exit__(None, None, None)

    def page(self, made: Manifest, words: str = "") -> str:
        """The run's, as soon as its cost is known and it says so."""

        def there() -> str:
            text = self.client.get(f"/runs/{made.digest.hex()}").text
            return "" if "data-again" in text or words not in text else text

        return until(there, f"that the page says {words!r}")

    def form(self, page: str, what: str, **fields: str) -> dict[str, str]:
        """A form of that page, filled in."""
        body = page.partition(f'/{what}">')[2].partition("</form>")[0]
        found = {
            name: body.split(f'name="{name}" value="')[1].split('"')[0] for name in ("csrf", "shown") if name in body
        }
        return {**found, "by": "Dr. Ada Osei", **fields}

    def send(self, made: Manifest, what: str, fields: dict[str, str]) -> Any:
        return self.client.post(f"/runs/{made.digest.hex()}/{what}", data=fields)


def quickly(action: Any) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread
