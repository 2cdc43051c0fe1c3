"""The dashboard that the containers serve, in Chromium, as a person comes to it: over TLS, at the published port."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.models.containers import Container
from playwright.sync_api import Browser, Page

from parley.federation.manifest import Manifest, read_manifest
from tests.docker.dashboard import Told, seed_history, study, submit, told, trusted_key, trusting
from tests.docker.engine import COORDINATOR, PARTIES, RUN_SECONDS, Federation, wait
from tests.support.chromium import (
    CUT,
    FITS,
    LINES_SHOWN,
    PATH,
    ROUNDS_SHOWN,
    Tab,
    chromium,
    reaches,
    violations,
)

pytestmark = [pytest.mark.docker, pytest.mark.skipif(PATH is None, reason="no Chromium: apt-get install chromium")]
FOLLOWED, SLOW, LAST = "followed", "va", "cleveland"
PAINT_SECONDS = 0.5
MANY = 10_000


@pytest.fixture(scope="module")
def where(federation: Federation) -> Told:
    return told(federation)


@pytest.fixture(scope="module")
def window(federation: Federation, where: Told) -> Iterator[Browser]:
    with chromium(trusted_key(federation, where)) as browser:
        yield browser


@pytest.fixture(scope="module")
def finished(federation: Federation, where: Told) -> dict[str, Any]:
    """The demonstration's run, and what `parley run --json` said at its end."""
    said = federation.run(COORDINATOR, "parley", "run", "/node/study.toml", "--node", "/node", "--json")
    outcome: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert outcome["state"] == "finished"
    return outcome


def signed_in(window: Browser, where: Told, theme: str = "light", width: int = 1400) -> Tab:
    tab = Tab(window, where.home, theme, width)
    tab.page.set_default_timeout(1000 * RUN_SECONDS)  # seven nodes verify and train on this machine as well
    return tab.follow(where.link)


def close(tab: Tab) -> None:
    """With nothing asked of anybody else, and nothing that the policy or a script stumbled over."""
    assert tab.elsewhere == []
    assert tab.complaints == []
    tab.context.close()


def plain(page: Page) -> str:
    """The page's text, without the places where a digest may be broken."""
    return page.inner_text("main").replace("\u200b", "")


def test_the_address_that_a_person_is_told_signs_in_and_leaves_no_token_behind(window: Browser, where: Told) -> None:
    tab = signed_in(window, where)
    assert "No runs yet" in tab.page.content()
    assert where.token not in tab.page.content() + tab.page.url
    (cookie,) = tab.context.cookies()
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    assert cookie["name"].startswith("__Host-")
    tab.page.click("text=Sign out")
    tab.page.wait_for_url(f"{where.home}/login")
    assert tab.go("/").url == f"{where.home}/login"
    tab.page.fill("#token", where.token[:-1])
    tab.page.click("button.primary")
    tab.page.wait_for_selector("[role=alert]:has-text('not this node')")
    assert [each for each in tab.complaints if "403" not in each] == []  # Chromium notes the refusal itself
    tab.context.close()


def test_a_browser_that_was_not_told_the_fingerprint_goes_no_further(window: Browser, where: Told) -> None:
    """What the other tests trust is the one key whose fingerprint was told, not whatever answers."""
    other = window.browser_type.launch(executable_path=PATH, args=CUT)
    with pytest.raises(Exception, match="ERR_CERT"):
        other.new_page().goto(where.link)
    other.close()


@pytest.fixture
def slow_hospital(federation: Federation) -> Iterator[Container]:
    """The demonstration's ten rounds take a quarter of a second: nobody could follow them. One hospital that has joined
    gets five thousandths of a processor, a second for a round, another one joins last."""
    slow, last = federation.container(SLOW), federation.container(LAST)
    last.stop(timeout=10)
    submit(federation, study(FOLLOWED, 10))
    mine = f"SELECT digest FROM runs WHERE run = '{FOLLOWED}'"
    joined = f"SELECT node FROM members WHERE node LIKE '%/{SLOW}' AND answer = 'joined' AND digest IN ({mine})"
    wait(lambda: federation.query(COORDINATOR, "runs.sqlite", joined), RUN_SECONDS, f"{SLOW} has not joined")
    slow.update(cpu_period=1_000_000, cpu_quota=5_000)
    last.start()
    try:
        yield slow
    finally:
        slow.kill("SIGCONT")
        slow.update(cpu_quota=-1)
        federation.wait_ready(SLOW)
        federation.wait_ready(LAST)


def test_a_live_run_is_followed_filtered_stopped_and_resumed(
    federation: Federation, window: Browser, where: Told, slow_hospital: Container
) -> None:
    tab = signed_in(window, where)
    page = tab.page
    page.click(f"a:has-text('{FOLLOWED}')")
    page.wait_for_selector("#part-head .chip:has-text('running')")
    first = reaches(page, ROUNDS_SHOWN, 1)
    assert reaches(page, ROUNDS_SHOWN, first + 1) < 10  # without a reload
    slow_hospital.kill("SIGSTOP")  # `pause` waits for what is throttled to be scheduled, and gives up
    states = wait(lambda: _states(page, f"waiting for {SLOW}"), RUN_SECONDS, f"the page does not wait for {SLOW} alone")
    for party in PARTIES:
        assert states[party] in (("working", "late") if party == SLOW else ("uploaded",)), states
    figures = page.inner_text("#part-figures")
    assert "of 10" in figures
    assert re.search(r"Parties\s+4\s*of 4", figures)
    page.wait_for_selector("#chart-spent")
    spent = "Number(document.querySelectorAll('#part-figures .big')[2].innerText.match(/[\\d.]+/)[0]) * 1000"
    earlier = reaches(page, spent, 1)
    assert earlier < 1500
    page.wait_for_selector("#lines li:has-text('round.opened')")
    everything = page.evaluate(LINES_SHOWN)
    page.fill("#filter", f"run.joined {SLOW} {FOLLOWED}")
    assert page.evaluate(LINES_SHOWN) == 1 < everything
    page.fill("#filter", "no line says this")
    assert page.is_visible("#nothing")
    page.fill("#filter", "")

    page.click("a:has-text('Stop…')")
    page.fill("#confirm", "another run")
    page.click("#final")
    page.wait_for_selector("[role=alert]:has-text('type its name')")
    assert federation.state(FOLLOWED)[0] == "running"
    page.click("#rest")
    page.wait_for_url(f"{where.home}/runs/{FOLLOWED}")
    page.wait_for_selector("#part-head .chip:has-text('stopped')")
    _, released, _ = federation.wait_state(FOLLOWED, ["stopped"])
    assert 2 <= released < 10
    assert reaches(page, ROUNDS_SHOWN, released) == released
    assert reaches(page, spent, earlier) >= earlier
    page.click("button:has-text('Resume')")
    page.wait_for_selector("#part-head .chip:has-text('running')")

    page.click("a:has-text('Stop…')")
    page.fill("#confirm", FOLLOWED)
    page.click("#final")
    state, _, outcome = federation.wait_state(FOLLOWED, ["failed", "stopped", "stalled"])
    assert state == "failed", (outcome, page.inner_text("main"))
    page.wait_for_selector("#part-head .chip:has-text('failed')")
    assert not page.is_visible("a:has-text('Stop…')")
    page.click("a:has-text('Privacy page')")
    page.wait_for_selector("h1:not([data-again])")
    (opened,) = set(re.findall(r"aggregator/\w+: (\d+) sums? opened", plain(page)))
    assert released <= int(opened) <= released + 1  # a stop can fall between an opening and its record
    assert f"over {opened} opened sums" in plain(page)
    tab.complaints[:] = [each for each in tab.complaints if "422" not in each]  # Chromium notes that refusal itself
    close(tab)


def _states(page: Page, waiting: str) -> dict[str, str]:
    """Of every party, once the page says that it waits so; both as of one refresh."""
    shown, states = page.evaluate(
        "[document.querySelector('#part-figures > div:last-child .quiet').innerText, Object.fromEntries("
        "[...document.querySelectorAll('#part-parties tbody tr')].map("
        "(row) => [row.querySelector('th').innerText, row.querySelector('.chip').innerText]))]"
    )
    return dict(states) if shown == waiting else {}


def test_the_privacy_page_says_what_the_command_line_says(
    federation: Federation, window: Browser, where: Told, finished: dict[str, Any], tmp_path: Path
) -> None:
    tab = signed_in(window, where)
    page = tab.go(f"/runs/{finished['run']}/privacy")
    page.wait_for_selector("h1:not([data-again])")
    said = plain(page)
    (tmp_path / "study.toml").write_text(federation.run(COORDINATOR, "cat", "/node/study.toml"))
    document = read_manifest(tmp_path / "study.toml")

    rows = _json(federation, "parley", "status", "--node", "/node", "--json")["runs"]
    row = next(each for each in rows if each["run"] == finished["run"])
    assert row == finished
    delta = f"{document.guarantee.delta:.0e}".replace("e-0", "e−")
    for text in (
        f"ε = {row['epsilon']:.4g}", f"at δ = {delta}", f"{row['round']} of {row['rounds']} rounds on record",
        row["digest"], document.mechanism.digest, f"the manifest’s cap is ε = {document.guarantee.epsilon:.4g}",
        f"over {row['rounds']} opened sums",
    ):  # fmt: skip
        assert text in said, text

    accounted = re.search(r"takes (\S+) of ε and (\S+) of δ", said)
    assert accounted is not None
    added = [float(each.replace("−", "-")) for each in accounted.groups()]
    epsilon = _accounted(federation, document, document.guarantee.delta - added[1])
    assert f"ε {epsilon + added[0]:.4g} by PLD" in said

    trail, ledger = _heads(federation)
    assert trail in said
    assert ledger in said
    for party in PARTIES:
        units = document.mechanism.sampler(party, 0).units
        assert re.search(rf"{party}\s+party\s+–\s+{units}\s+joined", said), party
    for place, operator in zip(("aggregator A", "aggregator B"), document.aggregators, strict=True):
        assert re.search(rf"{operator.name}\s+{place}\s+{operator.legal_entity}\s+–\s+joined", said)
        assert f"{operator.name}: {row['rounds']} sums opened" in said
    assert re.search(rf"{COORDINATOR}\s+coordinator\s+{document.coordinator.legal_entity}\s+–\s+leads", said)
    close(tab)


def _json(federation: Federation, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(federation.run(COORDINATOR, *words).splitlines()[-1])
    return found


def _accounted(federation: Federation, document: Manifest, delta: float) -> float:
    """What `parley privacy` finds for the party that samples most, by exact noise."""
    sampler = max((document.mechanism.sampler(party, 0) for party in PARTIES), key=lambda each: each.rate)
    words = ["--records", sampler.units, "--batch", sampler.mean_batch, "--rounds", document.releases]
    words += ["--noise-multiplier", document.mechanism.noise_multiplier, "--delta", delta, "--json"]
    return float(_json(federation, "parley", "privacy", "epsilon", *map(str, words))["epsilon"])


def _heads(federation: Federation) -> tuple[str, str]:
    """Of trail and ledger, by `parley audit verify`."""
    found = _json(federation, "parley", "audit", "verify", "/node", "--json")
    heads = {each["kind"]: each["head"] for each in found["chains"]}
    return heads["trail"], heads["ledger"]


@pytest.mark.parametrize(("theme", "width"), [("light", 1400), ("dark", 1400), ("light", 400), ("dark", 400)])
def test_with_the_network_cut_every_page_is_whole_readable_and_fits(
    window: Browser, where: Told, finished: dict[str, Any], theme: str, width: int
) -> None:
    tab = Tab(window, where.home, theme, width)
    assert violations(tab.go("/login")) == []
    tab.context.close()
    tab = signed_in(window, where, theme, width)
    run = f"/runs/{finished['run']}"
    for path in ("/", run, f"{run}/privacy", f"{run}/stop", "/runs/none"):
        page = tab.go(path)
        if path == run:
            page.wait_for_selector("#chart-spent")
        assert page.evaluate(FITS) <= width, path
        assert page.evaluate("document.fonts.check('15px Inter')"), path
        loaded = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
        assert len(loaded) >= 3, path
        assert all(each.startswith(where.home) for each in loaded), loaded
        assert violations(page) == [], path
    tab.complaints[:] = [each for each in tab.complaints if "404" not in each]  # Chromium notes /runs/none itself
    close(tab)


def test_a_page_of_another_origin_gets_no_answer_in_this_browser(window: Browser) -> None:
    """The cut is a cut: by name and by address."""
    page = window.new_page()
    for elsewhere in ("https://example.org/", "http://192.0.2.1/"):
        with pytest.raises(Exception, match="ERR_"):
            page.goto(elsewhere, timeout=20_000)
    page.close()


def test_metrics_through_the_published_port_want_the_token(federation: Federation, where: Told) -> None:
    context = trusting(federation)
    request = urllib.request.Request(f"{where.home}/metrics")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, context=context)
    request.add_header("Authorization", f"Bearer {where.token}")
    with urllib.request.urlopen(request, context=context) as answer:
        assert b"parley_start_time_seconds" in answer.read()


def test_ten_thousand_rounds_paint_in_half_a_second(
    federation: Federation, window: Browser, where: Told, finished: dict[str, Any], tmp_path: Path
) -> None:
    seed_history(federation, study("long", MANY + MANY // 4), MANY, tmp_path)
    tab = signed_in(window, told(federation))
    for path in ("/", "/runs/long", "/runs/long/privacy"):
        assert 0 < tab.paint_seconds(path) < PAINT_SECONDS, path
        assert f"{MANY:,} of" in plain(tab.page)
    close(tab)
