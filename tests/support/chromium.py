"""Debian's Chromium without a network, signed in to a dashboard."""

import asyncio
import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, CDPSession, Page, Route, sync_playwright
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from parley.dashboard.server import serve
from parley.demo.local import ReservedPort
from parley.web.listener import Settings
from tests.support.folders import place_of
from tests.support.until import GIVE_UP_SECONDS, until

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CUT = [
    "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--proxy-server=127.0.0.1:9",
    "--disable-background-networking",
]  # fmt: skip
"""No name resolves, and all but loopback goes to a proxy that is not there: what a page needs from elsewhere it does
not get."""
MOST_ATTEMPTS = 20
_reserved: list[ReservedPort] = []
SIGN_IN_MILLISECONDS = 30_000
"""Then it is tried again."""
FITS = "document.documentElement.scrollWidth"
ROUNDS_SHOWN = "Number(document.querySelector('#part-figures .big').firstChild.textContent.replaceAll(',', ''))"
LINES_SHOWN = "[...document.querySelectorAll('#lines li')].filter((line) => !line.hidden).length"


@contextmanager
def chromium(trusted_key: str = "") -> Iterator[Browser]:
    """`trusted_key` is the base64 SHA-256 of the one public key that TLS is accepted from, whatever its certificate
    is called: as a person does who compares the fingerprint and goes on."""
    trust = [f"--ignore-certificate-errors-spki-list={trusted_key}"] if trusted_key else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=[*CUT, *trust])
        yield browser
        browser.close()


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong, of any severity."""
    response = Axe().run(page).response
    return [
        f"{each['id']}: {each['nodes'][0]['target']} {each['nodes'][0]['failureSummary']}"
        for each in response["violations"]
    ]


def reaches(page: Page, expression: str, least: int) -> int:
    """Polled from here: the pages' policy forbids what Playwright would wait with."""

    def value() -> list[int]:
        found = int(page.evaluate(expression))
        return [found] if found >= least else []

    return until(value, f"that a figure on the page is {least}", 0.1)[0]


class Tab:
    """One page, with everything that it asked for and complained of."""

    def __init__(self, browser: Browser, home: str, theme: Any = "light", width: int = 1400) -> None:
        self.home = home
        self.context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(1000 * GIVE_UP_SECONDS)
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self._disturbed = False
        self._meter: CDPSession | None = None
        self.page.on("console", lambda said: self._heard(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self._heard(str(error)))
        self.context.route("**", self._only_home)

    def _heard(self, complaint: str) -> None:
        """Chromium gives up connections when an interface of the machine comes or goes, as every container's does."""
        if "ERR_NETWORK_CHANGED" in complaint:
            self._disturbed = True
        else:
            self.complaints.append(complaint)

    def _only_home(self, route: Route) -> None:
        if route.request.url.startswith(self.home):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def follow(self, link: str) -> "Tab":
        """A link that signs in; again where the machine's network changed under it."""
        for _ in range(MOST_ATTEMPTS):
            self.go(link.removeprefix(self.home))
            try:
                self.page.wait_for_url(re.compile(re.escape(self.home) + "/#?$"), timeout=SIGN_IN_MILLISECONDS)
            except PlaywrightTimeoutError:
                self.page.goto("about:blank")  # to go where one is, but for what follows the #, loads nothing
                continue
            return self
        raise AssertionError("the link does not sign in")

    def sign_in(self, token: str) -> "Tab":
        self.go("/login")
        self.page.fill("#token", token)
        self.page.click("button.primary")
        self.page.wait_for_url(f"{self.home}/")
        return self

    def go(self, path: str) -> Page:
        """Again while the machine's network is changing."""
        for _ in range(MOST_ATTEMPTS):
            self._disturbed = False
            try:
                self.page.goto(self.home + path)
            except PlaywrightError as error:
                self._heard(str(error))
                if not self._disturbed:
                    raise
            if not self._disturbed:
                return self.page
            self.page.wait_for_timeout(1000)
        raise AssertionError(f"the machine's network did not rest while {path} was loaded")

    def paint_seconds(self, path: str, times: int = 3) -> float:
        """Of a processor, that Chromium's main thread has taken for a page once it is painted; best of so many. What a
        clock on the wall says, this machine's other work decides."""
        self.processor_seconds()  # counts from its first reading
        taken = []
        for _ in range(times):
            self.go(path).wait_for_load_state("load")
            until(lambda: self.page.evaluate("performance.getEntriesByName('first-contentful-paint').length"))
            taken.append(self.processor_seconds())
        print(f"{path}: {min(taken):.3f} s of a processor")
        return min(taken)

    def processor_seconds(self) -> float:
        """Of the main thread, since the page was asked for."""
        if self._meter is None:
            self._meter = self.context.new_cdp_session(self.page)
            self._meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        found = {each["name"]: each["value"] for each in self._meter.send("Performance.getMetrics")["metrics"]}
        return float(found["TaskDuration"])


def serving(state: Path) -> str:
    """A dashboard over a folder, in a daemon thread; its address."""
    port = reserved_port()
    settings = Settings("127.0.0.1", port)
    threading.Thread(target=lambda: asyncio.run(serve(settings, place_of(state))), daemon=True).start()
    wait_until_served(f"http://127.0.0.1:{port}")
    return f"http://127.0.0.1:{port}"


def reserved_port() -> int:
    """That nobody else gets before this process ends."""
    _reserved.append(ReservedPort())
    return int(str(_reserved[-1]).rpartition(":")[2])


def wait_until_served(home: str) -> None:
    def served() -> bool:
        try:
            urllib.request.urlopen(f"{home}/login", timeout=20).close()
        except (urllib.error.URLError, TimeoutError):
            return False
        return True

    until(served, f"that {home} serves", 0.1)
