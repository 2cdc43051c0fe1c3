"""Every fault at every node in every phase, on a real engine: the run goes on, and the guarantee holds.

PARLEY_FAULT_TABLE=docs/faults.md python -m pytest -m docker tests/docker/test_faults.py    # writes the table too

A phase is held still from outside while a node is broken and mended:

gathering      one hospital is not there yet
contributing   one hospital is paused, so that the round waits for it
opening        the network between the aggregators is cut, so that neither commits
ending         the coordinator is cut off from one aggregator while it asks for the signed end
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from parley.demo.recipe import STUDY
from parley.federation.manifest import Manifest
from parley.federation.toml_text import toml_text
from tests.docker.engine import AGGREGATORS, COORDINATOR, NODES, PARTIES, RUN_SECONDS, Federation, wait
from tests.docker.page import RunPage
from tests.docker.table import Cell, write_table
from tests.support.until import until

pytestmark = [pytest.mark.docker, pytest.mark.slow]
TARGETS = ("north", "south", "lead", "cleveland")
FAULTS = ("pause", "kill -9", "restart", "disconnect", "full disk")
PHASES = ("gathering", "contributing", "opening", "ending")
LATE = "va"
"""The hospital that is kept away to hold a phase still; never the one that is broken."""
KINDS = ("silent", "unreachable", "disk_full", "restarted")


class Said(NamedTuple):
    """What logs and the run's page call a trouble."""

    kinds: tuple[str, ...]
    words: tuple[str, ...]


AWAY = Said(("silent", "unreachable"), ("does not answer", "cannot be reached"))
RESTARTED = Said((*AWAY.kinds, "restarted"), (*AWAY.words, "was restarted"))
SAID = {"full disk": Said(("disk_full",), ("has no space on its disk",)), "restart": RESTARTED, "kill -9": RESTARTED}
BACK = ("a node is well again", "a node was restarted")
SETTLE_SECONDS = 4.0
"""In which what is under way comes to where it is held."""
HELD_SECONDS = 3600.0
"""A round's deadline: no phase is held as long."""
HOLDING = {"gathering": "gathering", "contributing": "running", "opening": "running", "ending": "running ending"}


@pytest.fixture(scope="module")
def template() -> Manifest:
    return STUDY.replaced(run="template", deadline_seconds=HELD_SECONDS).manifest()


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[list[Cell]]:
    """Written at the end where the environment asks for it."""
    cells: list[Cell] = []
    yield cells
    if target := os.environ.get("PARLEY_FAULT_TABLE"):
        write_table(Path(target), cells)


@pytest.fixture(autouse=True)
def mended(federation: Federation) -> Iterator[None]:
    yield
    federation.mend()


@contextmanager
def broken(federation: Federation, name: str, fault: str) -> Iterator[None]:
    """One node, for as long as the block lasts; mended and healthy afterwards."""
    container = federation.container(name)
    if fault == "pause":
        federation.pause(name)
        yield
        container.unpause()
    elif fault == "kill -9":
        container.kill("SIGKILL")
        yield
        container.start()
    elif fault == "restart":
        container.restart(timeout=10)
        yield
    elif fault == "disconnect":
        federation.disconnect(name)
        yield
        federation.connect(name)
    else:
        federation.fill(name)
        yield
        federation.free(name)


CHARGED = """
import sys
from pathlib import Path
from parley.privacy.ledger import Ledger
ledger = Ledger.open(Path(sys.argv[1]))
ledger.verify()
print(len(ledger.runs[sys.argv[2]].recorded))
"""


class Books:
    """What is durable about one run; it must only ever grow."""

    def __init__(self, federation: Federation, run: str) -> None:
        self.federation, self.run = federation, run
        self.shares: dict[str, dict[int, tuple[str, str]]] = {name: {} for name in AGGREGATORS}
        """By round: the share, empty once it is erased, and its noise's place."""

    def check(self) -> int:
        """How many sums are open; no committed share has changed or gone, and both servers hold one opening each."""
        places = []
        for name in AGGREGATORS:
            rows = self.federation.query(
                name,
                "openings.sqlite",
                "SELECT round, hex(COALESCE(share, x'')), hex(opening), EXISTS (SELECT 1 FROM commits c WHERE "
                "c.run = o.run AND c.round = o.round) FROM openings o LEFT JOIN shares USING (run, round) "
                f"WHERE run = '{self.run}'",
            )
            committed = {row[0]: (row[1], row[2]) for row in rows if row[3]}
            newest = max(committed, default=0)
            for index, (share, place) in self.shares[name].items():
                again = committed.get(index, ("gone", "gone"))
                erased = index < newest and not again[0]  # as shares are once later rounds are open
                assert again[1] == place, f"{name} noised round {index} a second time"
                assert again[0] == share or erased, f"{name} holds another share of round {index}"
            self.shares[name] = committed
            places.append({index: place for index, (_, place) in committed.items()})
        both = places[0].keys() & places[1].keys()
        assert all(places[0][index] == places[1][index] for index in both), "the servers opened different sums"
        every = list(places[0].values())
        assert len(set(every)) == len(every), "one piece of noise covers two sums"
        return max(len(each) for each in places)

    def charged(self, name: str) -> int:
        """Rounds that a party's ledger has as released, its chain verified."""
        return int(self.federation.run("holder", "python", "-c", CHARGED, f"/state/{name}/ledger.sqlite", self.run))


class Stage:
    """Holds one run still in one phase after the other; what holds the next one is there before the last is let go."""

    def __init__(self, federation: Federation, run: str, target: str) -> None:
        self.federation, self.run = federation, run
        self.away = "lead-south" if target != "south" else "lead-north"

    def cut(self, node: str, network: str) -> None:
        self.federation.disconnect(node, [network], "held")

    def mend(self, node: str) -> None:
        self.federation.connect(node, "held")

    def gathering(self) -> None:
        self.federation.wait_state(self.run, ["gathering"])
        sql = (
            "SELECT count(*) FROM members JOIN runs USING (digest) WHERE answer = 'joined' AND node LIKE '%/party/%' "
            f"AND run = '{self.run}'"
        )
        there = [[len(PARTIES) - 1]]
        wait(lambda: self.federation.query(COORDINATOR, "runs.sqlite", sql) == there, RUN_SECONDS, "some join late")

    def contributing(self) -> None:
        self.cut("north", "north-south")
        self.federation.container(LATE).start()
        self.federation.wait_state(self.run, ["running"])
        self.federation.pause(LATE)
        self.mend("north")

    def opening(self) -> None:
        self.cut("north", "north-south")
        self.federation.container(LATE).unpause()
        time.sleep(SETTLE_SECONDS)

    def ending(self) -> None:
        self.cut(COORDINATOR, self.away)
        words = ["parley", "stop", self.run, "--final", "--node", "/node"]
        self.federation.container(COORDINATOR).exec_run(words, detach=True)  # it waits for both ends
        time.sleep(SETTLE_SECONDS)
        self.federation.container(LATE).unpause()

    def goes_on(self, books: Books, before: int) -> None:
        """One more sum is opened, and then the run waits for the late hospital again."""
        self.federation.pause(LATE)
        self.mend("north")

        def opened() -> bool:
            if books.check() > before:
                return True
            self.federation.container(LATE).unpause()  # it may have to send again what a server has lost
            time.sleep(0.2)
            self.federation.pause(LATE)
            return False

        until(opened, f"that {self.run} goes on: {self.federation.state(self.run)}", 2.0)


class Voices:
    """What the nodes' logs say of the broken one since it was broken."""

    def __init__(self, federation: Federation, target: str) -> None:
        self.federation, self.target, self.since = federation, target, time.time()
        self.others = [name for name in NODES if name != target]

    def lines(self, name: str) -> list[dict[str, str]]:
        """Of another node's log, those that name it."""
        text = self.federation.logs(name, self.since).splitlines()
        said = [json.loads(line) for line in text if line.startswith("{")]
        return [line for line in said if line.get("kind") in KINDS and line["peer"].endswith(f"/{self.target}")]

    def cause(self, trouble: Said) -> str:
        """Whose log named it first for the right reason, and how; what it said itself does not count.

        Of the fault before, somebody may only now have noticed that it is over.
        """
        found = [
            (line["time"], f"{name}: {line['event']} ({line['kind']})")
            for name in self.others
            for line in self.lines(name)
            if line["level"] != "info" and line["kind"] in trouble.kinds
        ]
        return min(found)[1] if found else ""

    def name(self, trouble: Said) -> bool:
        """Whether a log has named it, and for the right reason."""
        return self.cause(trouble) != ""

    def missed_by(self, trouble: Said, page: RunPage | None) -> bool:
        """Whether a log has named it, and the run's page where there is one."""
        return self.name(trouble) and (page is None or bool(page.said))

    @property
    def seconds(self) -> float:
        return time.time() - self.since

    def content(self) -> bool:
        """Whether everybody who had missed it has said that it is back; who is held still says nothing."""
        last = [lines[-1] for name in self.others if name != LATE and (lines := self.lines(name))]
        return all(line["event"] in BACK for line in last)


@pytest.mark.parametrize("target", [pytest.param(each, marks=pytest.mark.xdist_group(each)) for each in TARGETS])
def test_a_run_survives_every_fault_of_one_node_in_every_phase(
    federation: Federation, template: Manifest, table: list[Cell], target: str
) -> None:
    run = f"faults-{target}-{int(time.time()) % 100_000}"
    federation.container(LATE).stop(timeout=10)
    federation.submit(toml_text({**template.as_json(), "run": run}) + "\n")
    books, stage, opened = Books(federation, run), Stage(federation, run, target), 0
    for phase in PHASES:
        getattr(stage, phase)()
        for fault in FAULTS:
            voices = Voices(federation, target)
            named = SAID.get(fault, AWAY)
            pageless = target == COORDINATOR and fault != "full disk"  # it is the coordinator that serves the page
            with RunPage(federation, run, target, named.words) as page:
                with broken(federation, target, fault):
                    noticed = partial(voices.missed_by, named, None if pageless else page)
                    until(noticed, f"that {target} is named: {fault} while {phase}", 0.5)
                federation.wait_ready(target)
            state, _, outcome = federation.state(run)
            before, opened = opened, books.check()
            cause, took = voices.cause(named), voices.seconds
            table.append(Cell(target, phase, fault, state, opened, took, cause, page.said))
            assert state in HOLDING[phase].split(), f"{fault} of {target} while {phase}: {state}, {outcome}"
            assert before <= opened <= before + 1
            assert voices.name(named), f"{fault} of {target} while {phase}: {cause or 'no log'}"
            assert page.said or pageless, f"no page names {target}: {fault} while {phase}"
            until(voices.content, f"that nobody misses {target} any more: {fault} while {phase}", 0.2)
        if phase == "opening":
            stage.goes_on(books, opened)
            opened = books.check()
    stage.mend(COORDINATOR)
    state, _, outcome = federation.wait_state(run, ["finished", "stalled", "stopped", "failed"], RUN_SECONDS)
    assert (state, outcome) == ("failed", "stopped for good by the operator")
    opened = books.check()
    assert opened > 0
    for party in PARTIES:
        wait(lambda name=party: books.charged(name) >= opened, RUN_SECONDS, f"{party}'s ledger is behind")  # type: ignore[misc]
