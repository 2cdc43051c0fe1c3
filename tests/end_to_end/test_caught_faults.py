"""A server is caught: which node says so, in what words, and how soon. Rows of the fault matrix, over processes.

PARLEY_CAUGHT_TABLE=docs/faults.md python -m pytest -m slow tests/end_to_end/test_caught_faults.py   # writes the table

Not in containers: their image has the product alone, and no server of the product's lies. The lie begins

before the rounds    with the first batch of noise that is made for the run
among the rounds     when two are over
"""

import datetime as dt
import http.cookiejar
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from parley.bench.train_data import study
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.mpc.parts import NoiseParts
from parley.web.access import token_in
from tests.docker.table import CAUGHT_BEGIN, CAUGHT_END, replace_table
from tests.end_to_end.chains import AMONG_TESTS
from tests.end_to_end.test_covert import DIMENSION, PARTIES, ROUNDS, pending, roomy
from tests.support.until import until

LINE = "a server was caught, see parley evidence list"
PHASES = ("before the rounds", "among the rounds")
LOOK_SECONDS = 0.1
TITLES = ("the lie begins", "who says it", "in what words", "seconds after the catch")
Row = tuple[str, str, str, str]


@dataclass
class Page:
    """The run's page of the coordinator's dashboard, looked at again and again until it has said both."""

    federation: LocalFederation
    run: str
    outcome: str = ""
    outcome_at: float = 0.0
    pool: str = ""
    pool_at: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._browser = urllib.request.build_opener(cookies)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(LOOK_SECONDS) and not (self.outcome and self.pool):
            try:
                page = self._get(f"/runs/{self.run}?part=live")
                if "part-head" not in page:
                    token = token_in(self.federation.coordinator.folder / "state")
                    self._get("/login", urllib.parse.urlencode({"token": token}).encode())
            except (OSError, urllib.error.URLError):
                continue
            if not self.outcome and (found := re.search(r'<p class="outcome bad">([^<]*did not follow[^<]*)<', page)):
                self.outcome, self.outcome_at = found[1], time.time()
            if not self.pool and (found := re.search(r'<p class="problem">(It has evidence[^<]*)', page)):
                self.pool, self.pool_at = found[1].strip(), time.time()

    def _get(self, path: str, form: bytes | None = None) -> str:
        with self._browser.open(f"{self.federation.dashboard_url}{path}", form, timeout=20) as answer:
            text: bytes = answer.read()
        return text.decode()


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[list[Row]]:
    """Written at the end where the environment asks for it."""
    rows: list[Row] = []
    yield rows
    if target := os.environ.get("PARLEY_CAUGHT_TABLE"):
        replace_table(Path(target), CAUGHT_BEGIN, CAUGHT_END, TITLES, rows)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_every_node_but_the_liar_says_who_was_caught(phase: str, tmp_path: Path, table: list[Row]) -> None:
    manifest = study("caught", PARTIES, DIMENSION, ROUNDS, NoiseParts("covert", 0.5, "1/4"))
    told = tmp_path / "lie now"
    if phase == PHASES[0]:
        told.touch()
    with roomy(tmp_path, manifest, dashboard=True) as federation:
        north, south = federation.aggregators
        lead = federation.coordinator
        south.before = ("tests.support.lying_aggregator", str(told))
        for node in federation.nodes.values():
            node.start(AMONG_TESTS if node is south else None)
        for node in federation.nodes.values():
            node.wait_ready()
        coordinator = Coordinator(lead.folder)
        digest = coordinator.submit(manifest)
        watch = subprocess.Popen(
            [sys.executable, "-m", "parley.cli.main", "watch", manifest.run, "--node", str(lead.folder)],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        page = Page(federation, manifest.run)
        try:
            for row, _ in coordinator.follow(digest):
                if row.round >= 2:
                    told.touch()
            watched = watch.communicate()[1].splitlines()[-1]
            watched_at = time.time()
            (evidence,) = pending(north)
            caught_at = (north.folder / "state" / "evidence" / f"{evidence}.evidence").stat().st_mtime
            name = f"aggregator south did not follow the noise protocol (evidence {evidence[:16]}…)"
            until(lambda: page.outcome and page.pool, "that the page names it")
            until(lambda: all(pending(node) for node in federation.parties), "that the parties know")
        finally:
            page.close()
            watch.kill()
        assert (row.state, row.outcome) == (State.failed, name)
        assert watched.endswith(f" caught is failed: {name}")
        assert page.outcome == name
        assert watch.returncode == 1
        names = [(node.name, *_said(node.log, evidence)) for node in [north, lead, *federation.parties]]
        assert not _said(south.log, evidence)[0], "nobody sends a server evidence against itself"
        shown = {evidence[:16]: "3f9c…"}
        rows = [
            *((f"{who}: log", words, at) for who, words, at in names),
            ("lead: run.failed, `parley watch`", watched, watched_at),
            ("lead: run's page", page.outcome, page.outcome_at),
            ("lead: run's page, noise pool of north", page.pool + " parley evidence list", page.pool_at),
        ]
        for who, words, at in rows:
            assert words, f"{who} says nothing"
            said = words.replace(f"{evidence[:16]}…", shown[evidence[:16]])
            table.append((phase, who, said, f"{at - caught_at:.1f}"))


def _said(log: Path, evidence: str) -> tuple[str, float]:
    """The first line that names south for it, and when."""
    for line in log.read_text().splitlines():
        found = json.loads(line) if line.startswith("{") else {}
        if found.get("event") == LINE:
            assert (found["level"], found["peer"].rsplit("/", 1)[1]) == ("error", "south")
            assert evidence.startswith(found["digest"])
            return f"error: {LINE}", _seconds(found["time"])
    return "", 0.0


def _seconds(moment: str) -> float:
    return dt.datetime.fromisoformat(moment).timestamp()
