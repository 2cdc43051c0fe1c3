"""What several tests of pages need."""

import time

from tests.dashboard.conftest import Browser

PAGES = ("/", "/runs/heart-1", "/runs/heart-1?part=live", "/runs/heart-1/privacy", "/runs/heart-1/stop")


def wait_for(browser: Browser, path: str, text: str, seconds: float = 240.0) -> str:
    """A page, once what is computed apart has come."""
    until = time.monotonic() + seconds
    while True:
        page = str(browser.client.get(path).text)
        if text in page or time.monotonic() > until:
            assert text in page
            return page
        time.sleep(0.2)
