"""Debian's Chromium without a network, signed in to a dashboard."""

import asyncio
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, sync_playwright

from coordinator.dashboard.server import Settings, serve
from tests.dashboard.folders import place_of

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CUT = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking"]
"""No name resolves: what a page needs from elsewhere it does not get."""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=CUT)
        yield browser
        browser.close()


class Tab:
    """One page, with everything that it asked for and complained of."""

    def __init__(self, browser: Browser, home: str, theme: Any = "light", width: int = 1400) -> None:
        self.home = home
        self.context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.context.route("**", self._only_home)

    def _only_home(self, route: Route) -> None:
        if route.request.url.startswith(self.home):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def sign_in(self, token: str) -> "Tab":
        self.page.goto(f"{self.home}/login")
        self.page.fill("#token", token)
        self.page.click("button.primary")
        self.page.wait_for_url(f"{self.home}/")
        return self

    def go(self, path: str) -> Page:
        self.page.goto(self.home + path)
        return self.page

    def first_paint_seconds(self) -> float | None:
        found = self.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        return None if found is None else found / 1000


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def serving(state: Path) -> str:
    """A dashboard over a folder, in a daemon thread; its address."""
    port = free_port()
    settings = Settings("127.0.0.1", port)
    threading.Thread(target=lambda: asyncio.run(serve(settings, place_of(state))), daemon=True).start()
    wait_until_served(f"http://127.0.0.1:{port}")
    return f"http://127.0.0.1:{port}"


def wait_until_served(home: str, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(f"{home}/login", timeout=5).close()
            return
        except (urllib.error.URLError, TimeoutError):
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
