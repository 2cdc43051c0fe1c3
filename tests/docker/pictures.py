"""Pictures of the dashboard for docs/dashboard, taken of a federation in containers.

    python -m tests.docker.pictures                 # some minutes; needs a Docker engine and Chromium

0 rounds      the demonstration's run, live: one hospital's container is stopped, so that it gathers
10 rounds     the same run at its end: the demonstration has ten rounds
10,000        made-up history on the coordinator's volume (`seed_history`); no container computed it, one serves it
"""

import io
import sys
import tempfile
from pathlib import Path

import docker
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.docker.dashboard import Told, seed_history, study, submit, told, trusted_key
from tests.docker.engine import COORDINATOR, ROOT, Federation, build_images
from tests.support.chromium import Tab, chromium

OUT = ROOT / "docs" / "dashboard"
LOOKS = (("light", 1400), ("dark", 1400), ("light", 400), ("dark", 400))
MOST_COLOURS, LEAST_DISTANCE = 64, 10
PATIENCE_MILLISECONDS = 7000
"""What an aggregator said may be of the last visit: the page asks again by itself."""
ABSENT = "va"
RUN = "heart-disease"
MANY, PLANNED = 10_000, 12_500


def main() -> None:
    client = docker.from_env(timeout=120)
    build_images(client)
    with tempfile.TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        (books := folder / "books").mkdir()
        federation = Federation(client, folder, "parleypictures", "10.213.21", provision="--deadline 600 --runs 4")
        try:
            federation.up()
            where = told(federation)
            with chromium(trusted_key(federation, where)) as browser:
                take_all(federation, browser, where, books)
        finally:
            federation.down()


def take_all(federation: Federation, browser: Browser, where: Told, books: Path) -> None:
    document = study(RUN, 10)
    for theme, width in LOOKS:
        tab = Tab(browser, where.home, theme, width)
        picture(tab.go("/login"), "login", theme, width)
        tab.context.close()
    tabs = {look: Tab(browser, where.home, *look).sign_in(where.token) for look in LOOKS}
    for look, tab in tabs.items():
        picture(tab.go("/"), "runs-none", *look)

    federation.container(ABSENT).stop(timeout=10)
    submit(federation, document)
    federation.wait_state(RUN, ["gathering"])
    take(tabs, RUN, 0)
    for look, tab in tabs.items():
        picture(tab.go(f"/runs/{RUN}/stop"), "stop", *look)

    federation.container(ABSENT).start()
    federation.wait_state(RUN, ["finished"])
    take(tabs, RUN, 10)
    for tab in tabs.values():
        tab.context.close()

    seed_history(federation, study("long", PLANNED), MANY, books)
    federation.run(COORDINATOR, "parley", "health", "/node")
    where = told(federation)
    take({look: Tab(browser, where.home, *look).sign_in(where.token) for look in LOOKS}, "long", MANY)


def take(tabs: dict[tuple[str, int], Tab], run: str, rounds: int) -> None:
    for look, tab in tabs.items():
        page = tab.go("/")
        page.wait_for_selector("h1:not([data-again])", timeout=60_000)
        page.wait_for_selector("text=Verifying the ledger", state="detached", timeout=60_000)
        picture(page, f"runs-{rounds}", *look)
        page = tab.go(f"/runs/{run}")
        page.wait_for_selector("#chart-spent", timeout=120_000)
        page.wait_for_selector("#part-pools :text('samples ready') >> nth=1", timeout=30_000)
        picture(page, f"run-{rounds}", *look)
        page = tab.go(f"/runs/{run}/privacy")
        page.wait_for_selector("h1:not([data-again])", timeout=120_000)
        picture(page, f"privacy-{rounds}", *look)
        assert tab.complaints == []
        assert tab.elsewhere == []


def picture(page: Page, name: str, theme: str, width: int) -> None:
    page.wait_for_timeout(PATIENCE_MILLISECONDS)
    path = OUT / f"{name}-{theme}-{width}.png"
    path.write_bytes(small(page.screenshot(full_page=True)))
    print(f"{path.name}: {path.stat().st_size:,} bytes", file=sys.stderr)


def small(png: bytes) -> bytes:
    """With a palette of frequent colours that differ: flat ones stay exact, only edges of letters are rounded."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.int64)
    colours, which, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = colours[np.argmax(counts)][None]
    for colour in colours[np.argsort(-counts, kind="stable")]:
        if len(kept) < MOST_COLOURS and ((kept - colour) ** 2).sum(axis=1).min() >= LEAST_DISTANCE**2:
            kept = np.vstack([kept, colour])
    nearest = ((colours[:, None] - kept[None]) ** 2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    image = Image.fromarray(nearest[which].reshape(pixels.shape[:2]), "P")
    image.putpalette(kept.astype(np.uint8).tobytes())
    held = io.BytesIO()
    image.save(held, "PNG", optimize=True)
    return held.getvalue()


if __name__ == "__main__":
    main()
