"""What several tests of pages need."""

from tests.support.browser import Browser
from tests.support.until import until

PAGES = ("/", "/runs/heart-1", "/runs/heart-1?part=live", "/runs/heart-1/privacy", "/runs/heart-1/stop")


def wait_for(browser: Browser, path: str, text: str) -> str:
    """A page, once what is computed apart has come."""

    def page() -> str:
        found = str(browser.client.get(path).text)
        return found if text in found else ""

    return until(page, f"that {path} says {text!r}", 0.2)
