"""The page in Chromium: approved by a person who reads it, axe-core, 400 px, no network, no script that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import FITS, PATH, Tab, chromium, violations
from tests.support.page_process import link, served
from tests.support.party_pages import asked

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PATH is None, reason="no Chromium: apt-get install chromium")]
RUN = f"/runs/{asked().digest.hex()}"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_a_person_reads_approves_and_sees_what_never_leaves(window: Browser, folder: Path) -> None:
    """The real process of the page, the accountant's and that of own figures."""
    with served(folder) as (said, _):
        home = said["url"].rstrip("/")
        for theme, width in (("light", 1400), ("dark", 400)):
            tab = Tab(window, home, theme, width)
            tab.go("/login")
            assert violations(tab.page) == []
            tab.follow(link(folder).strip())
            for path in ("/", RUN):
                page = tab.go(path)
                if path == RUN:
                    page.wait_for_selector("#approve")
                assert page.evaluate(FITS) <= width, path
                assert violations(page) == [], path
            assert tab.complaints == tab.elsewhere == []
            tab.context.close()
        tab, old = (Tab(window, home).follow(link(folder).strip()) for _ in range(2))
        for each in (tab, old):
            each.go(RUN).wait_for_selector("#approve")
        page = tab.page
        page.fill("#by-approve", "Dr. Ada Osei")
        page.fill("#typed-approve", asked().digest.hex()[:8])
        page.click("#approve")
        page.wait_for_selector("text=Admitted here")
        assert "Dr. Ada Osei" in page.inner_text("main")
        old.page.fill("#by-refuse", "Dr. Ben Kato")
        old.page.fill("#reason", "too late")
        old.page.click("#refuse")
        old.page.wait_for_selector("[role=alert]:has-text('Something has changed')")
        assert "too late" not in old.page.inner_text("main")
        page.click("#own button")
        page.wait_for_selector("dt:has-text('Own loss')")
        assert "never leaves this institution" in page.inner_text("#own")
        assert violations(page) == []
        with page.expect_download() as started:
            page.click("button[value=json]")
        assert started.value.suggested_filename == "heart-2.report.json"
        assert "own" not in Path(started.value.path()).read_text().lower().split('"loss"')[1:]
        assert [each for each in tab.complaints if "409" not in each] == []
