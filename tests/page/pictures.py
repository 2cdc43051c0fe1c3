"""Pictures of a party's page for docs/page, of a folder that a real party has filled.

python -m tests.page.pictures           # a minute; needs Chromium
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from tests.docker.pictures import LOOKS, small
from tests.support.chromium import Tab, chromium
from tests.support.page_process import link, served
from tests.support.party_pages import finished, waiting
from tests.support.party_process import Running
from tests.support.stage import Stage

OUT = Path(__file__).parents[2] / "docs" / "page"


def main(out: Path = OUT) -> None:
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as name:
        stage = Stage(Path(name))
        try:
            finished(stage)
            made = waiting(stage)
            with Running(stage), served(stage.node) as (said, _), chromium() as browser:
                for theme, width in LOOKS:
                    tab = Tab(browser, said["url"].rstrip("/"), theme, width)
                    picture(tab.go("/login"), out, "login", theme, width)
                    tab.follow(link(stage.node).strip())
                    page = tab.go("/")
                    page.click("text=Ask them now")
                    page.wait_for_selector(".chip:has-text('reached')")
                    picture(page, out, "node", theme, width)
                    page = tab.go(f"/runs/{made.digest.hex()}")
                    page.wait_for_selector("#approve", timeout=120_000)
                    picture(page, out, "asked", theme, width)
                    page = tab.go("/")
                    page.click("text=heart-1")
                    page.click("#own button")
                    page.wait_for_selector("dt:has-text('Own loss')", timeout=120_000)
                    picture(page, out, "over", theme, width)
                    assert tab.complaints == []
                    assert tab.elsewhere == []
                    tab.context.close()
        finally:
            stage.close()


def picture(page: Page, out: Path, name: str, theme: str, width: int) -> None:
    page.wait_for_timeout(300)
    path = out / f"{name}-{theme}-{width}.png"
    path.write_bytes(small(page.screenshot(full_page=True)))
    print(f"{path.name}: {path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
