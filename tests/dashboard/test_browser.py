"""The pages in Chromium: a live run followed and stopped, contrast and keyboard, the network cut, first paint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from parley.bench.train_data import study, write_party
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.privacy.ledger import Ledger
from parley.study.model_file import load
from parley.v1 import common_pb2
from parley.web.access import token_in
from tests.support.chromium import (
    FITS,
    LINES_SHOWN,
    PATH,
    ROUNDS_SHOWN,
    Tab,
    chromium,
    reaches,
    serving,
    violations,
    wait_until_served,
)
from tests.support.folders import coordinator_folder, write_finished_model
from tests.support.pictures import with_examples

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PATH is None, reason="no Chromium: apt-get install chromium")]
PAGES = ("/", "/runs/heart-1", "/runs/heart-1/privacy", "/runs/heart-1/stop")
PAINT_SECONDS = 0.5


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def homes(tmp_path_factory: Any) -> dict[int, tuple[str, str]]:
    """Address and token of dashboards with 0, 10 and 10,000 rounds."""
    found = {}
    for rounds in (0, 10, 10_000):
        state, document = coordinator_folder(tmp_path_factory.mktemp("node"), rounds)
        if rounds:
            write_finished_model(state, document)
            with_examples(state, document.digest)
        found[rounds] = (serving(state), token_in(state))
    return found


def test_a_browser_saves_the_model_and_its_card(
    window: Browser, homes: dict[int, tuple[str, str]], tmp_path: Path
) -> None:
    home, token = homes[10]
    tab = Tab(window, home).sign_in(token)
    for name, file in (("Model", "heart-1.npz"), ("Card", "heart-1.card.html")):
        tab.go("/runs/heart-1")
        with tab.page.expect_download() as started:
            tab.page.get_by_role("link", name=name, exact=True).click()
        assert started.value.suggested_filename == file
        started.value.save_as(tmp_path / file)
    assert load(tmp_path / "heart-1.npz").card["run"] == "heart-1"
    assert tab.complaints == tab.elsewhere == []
    for width in (1400, 400):
        page = window.new_page(viewport={"width": width, "height": 900}, bypass_csp=True)  # axe is a script
        page.goto((tmp_path / "heart-1.card.html").as_uri())
        assert page.title() == "Model card: heart-1"
        assert page.evaluate(FITS) <= width
        assert violations(page) == []
        page.close()


@pytest.mark.parametrize("rounds", [0, 10, 10_000])
@pytest.mark.parametrize(("theme", "width"), [("light", 1400), ("dark", 1400), ("light", 400), ("dark", 400)])
def test_pages_are_accessible_fit_and_need_no_network(
    window: Browser, homes: dict[int, tuple[str, str]], rounds: int, theme: str, width: int
) -> None:
    home, token = homes[rounds]
    tab = Tab(window, home, theme, width)
    tab.go("/login")
    assert violations(tab.page) == []
    tab.sign_in(token)
    for path in (*PAGES, *(["/runs/heart-1/examples"] if rounds else [])):
        page = tab.go(path)
        if path == "/runs/heart-1":
            page.wait_for_selector("#chart-spent")
        assert page.evaluate(FITS) <= width, path
        assert page.evaluate("document.fonts.check('15px Inter')"), path
        assert violations(tab.page) == [], path
    assert tab.complaints == []
    assert tab.elsewhere == []
    tab.context.close()


def test_ten_thousand_rounds_paint_in_half_a_second(window: Browser, homes: dict[int, tuple[str, str]]) -> None:
    home, token = homes[10_000]
    tab = Tab(window, home).sign_in(token)
    for path in ("/", "/runs/heart-1", "/runs/heart-1/privacy"):
        assert 0 < tab.paint_seconds(path) < PAINT_SECONDS, path
    before = tab.processor_seconds()
    tab.page.evaluate("() => { let x = 0; for (let i = 0; i < 3e8; i++) x += i; return x; }")
    assert tab.processor_seconds() > before + 0.05, "the meter does not move"
    tab.context.close()


def test_everything_is_reached_by_keyboard(window: Browser, homes: dict[int, tuple[str, str]]) -> None:
    home, token = homes[10]
    tab = Tab(window, home).sign_in(token)
    page = tab.go("/runs/heart-1")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # past the end
        reached.append(page.evaluate("(document.activeElement.id || document.activeElement.innerText).trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", reached[-1]
    for name in ("Skip to the content", "parley", "Sign out", "Privacy page", "Stop…", "filter", "level"):
        assert any(each.startswith(name) for each in reached), (name, reached)
    page.focus("a.skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    tab.context.close()


def test_the_log_is_filtered_while_typing(window: Browser, homes: dict[int, tuple[str, str]]) -> None:
    home, token = homes[10_000]
    tab = Tab(window, home).sign_in(token)
    page = tab.go("/runs/heart-1")
    everything = page.evaluate(LINES_SHOWN)
    page.fill("#filter", "short hospital-b")
    assert 0 < page.evaluate(LINES_SHOWN) < everything / 5
    page.fill("#filter", "nothing like this")
    assert page.is_visible("#nothing")
    page.fill("#filter", "")
    page.select_option("#level", "warning")
    assert 0 < page.evaluate(LINES_SHOWN) < everything / 5
    tab.context.close()


def test_a_link_signs_in_and_leaves_no_token_behind(window: Browser, homes: dict[int, tuple[str, str]]) -> None:
    home, token = homes[10]
    tab = Tab(window, home)
    tab.page.goto(f"{home}/login#{token}")
    tab.page.wait_for_url(f"{home}/")
    assert token not in tab.page.content()
    tab.page.goto(f"{home}/login#{token}")  # again, by who is signed in already
    assert tab.page.url.rstrip("#") == f"{home}/"
    tab.context.close()


def test_a_live_run_is_followed_stopped_and_its_privacy_page_is_right(window: Browser, tmp_path: Path) -> None:
    """Real processes: two aggregators, three parties, the coordinator and the dashboard that it starts."""
    dimension, rounds = 40, 400
    manifest = study("live", 3, dimension, rounds)
    data = {}
    for place in range(3):
        path = tmp_path / f"party-{place + 1}.libsvm"
        write_party(path, place, dimension)
        data[f"party-{place + 1}"] = [path]
    with LocalFederation(tmp_path / "n", manifest, data, evaluation=data["party-1"], dashboard=True) as federation:
        federation.start()
        folder = federation.coordinator.folder
        coordinator = Coordinator(folder)
        wait_until_served(federation.dashboard_url)
        tab = Tab(window, federation.dashboard_url).sign_in(token_in(folder / "state"))
        assert "No runs yet" in tab.page.content()
        digest = coordinator.submit(manifest)
        page = tab.go("/runs/live")
        page.wait_for_selector("#part-head .chip:has-text('running')")
        first = reaches(page, ROUNDS_SHOWN, 3)
        reaches(page, ROUNDS_SHOWN, first + 1)  # without a reload
        page.wait_for_selector("#lines li:has-text('round.opened')")
        page.wait_for_selector("#part-pools :text('samples ready')")
        page.wait_for_selector("#part-parties .chip.good")
        page.wait_for_selector("#chart-norms")
        page.wait_for_selector("#part-evaluation .chart")
        page.click("a:has-text('Stop…')")
        page.click("#rest")
        page.wait_for_url(f"{federation.dashboard_url}/runs/live")
        page.wait_for_selector("#part-head .chip:has-text('stopped')")
        row = coordinator.store.get(digest)
        assert row is not None
        assert row.state is State.stopped
        released = len(coordinator.store.history(digest))
        assert 3 <= released < rounds
        page.wait_for_selector("#chart-spent")
        assert "stopped by the operator" in page.inner_text("#part-head")
        page.click("button:has-text('Resume')")
        page.wait_for_selector("#part-head .chip:has-text('running')")
        reaches(page, ROUNDS_SHOWN, released + 1)
        page.goto(f"{federation.dashboard_url}/runs/live/stop")
        page.fill("#confirm", "live")
        page.click("#final")
        page.wait_for_selector("#part-head .chip:has-text('failed')")
        page.click("a:has-text('Privacy page')")
        page.wait_for_selector("dt:has-text('Ledger head') + dd code")
        page.wait_for_selector("text=by PLD")
        page.wait_for_selector("h1:not([data-again])")
        row = coordinator.store.get(digest)
        assert row is not None
        said = page.inner_text("main").replace("\u200b", "")
        # A stop can fall between an opening and its record, so the aggregators' word may be one more than the history.
        (opened,) = {common_pb2.SignedEnd.FromString(word).openings for word in coordinator.store.ends(digest).values()}
        assert 0 <= opened - len(coordinator.store.history(digest)) <= 1
        ledger = Ledger.open(folder / "state" / "ledger.sqlite")
        for text in (
            row.claim["statement"], f"ε = {row.claim['epsilon']:.4g}", "δ = 1e−5", "north of North Trust",
            "south of South Foundation", "Lead Institute", "party-3", f"over {opened} opened sums",
            f"{opened} sums opened", manifest.digest.hex(),
            str(ledger.verify()),
        ):  # fmt: skip
            assert text in said, text
        assert tab.complaints == []
        assert tab.elsewhere == []
        assert federation.coordinator.alive
        tab.context.close()
