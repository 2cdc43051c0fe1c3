"""The run's page of a coordinator in a container, as a browser gets it: what it says of nodes in trouble."""

import http.cookiejar
import math
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Container
from types import TracebackType
from typing import Self

from tests.docker.engine import COORDINATOR, Federation

PORT = "7480/tcp"
LOOK_SECONDS = 0.5
ANSWER_SECONDS = 20.0
TROUBLE = re.compile(r'<p class="outcome (?:bad|warn)"><strong>([a-z-]+)</strong> ([a-z ]+), (?:for )?([^<]+)</p>')
AGO = re.compile(r"([0-9.]+) (ms|s) ago")


class RunPage:
    """Looked at again and again by a thread while the block lasts, until it says of a node one of the right `words`."""

    def __init__(self, federation: Federation, run: str, node: str, words: Container[str]) -> None:
        self._federation, self._run, self._node, self._words = federation, run, node, words
        self._began = time.monotonic()
        self.said = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        # The certificate is the node's own, by an authority that no browser knows; it is looked at by deploy's tests.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._browser = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join(2 * ANSWER_SECONDS)

    def _look(self) -> None:
        while not self._done.wait(LOOK_SECONDS) and not self.said:
            try:
                found = self._troubles()
            except (OSError, urllib.error.URLError):
                continue  # while the coordinator is the node that is broken there is no page
            self.said = found.get(self._node, "")

    def _troubles(self) -> dict[str, str]:
        """Nodes, and what is said of each; not what is over since before the block began."""
        page = self._get(f"/runs/{self._run}?part=live")
        if "part-head" not in page:
            token = self._federation.run("holder", "cat", f"/state/{COORDINATOR}/dashboard.token").strip()
            self._get("/login", urllib.parse.urlencode({"token": token}).encode())
            page = self._get(f"/runs/{self._run}?part=live")
        return {
            node: words
            for node, words, when in TROUBLE.findall(page)
            if words in self._words and self._seconds(when) < time.monotonic() - self._began
        }

    @staticmethod
    def _seconds(when: str) -> float:
        """Ago; what lasts is of now."""
        ago = AGO.fullmatch(when)
        if ago is None:
            return 0.0 if "ago" not in when else math.inf
        return float(ago[1]) / (1000 if ago[2] == "ms" else 1)

    def _get(self, path: str, form: bytes | None = None) -> str:
        bound = self._federation.container(COORDINATOR).ports.get(PORT)
        if not bound:
            raise OSError("the coordinator is in no network")
        address = f"https://127.0.0.1:{bound[0]['HostPort']}{path}"
        with self._browser.open(address, form, timeout=ANSWER_SECONDS) as answer:
            text: bytes = answer.read()
        return text.decode()
