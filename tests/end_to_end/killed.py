"""What must hold of a run after kills: one opening per round, the same bytes everywhere, ledgers and trails whole.

The records of a party are all alike, with features that no other party has, so that what it contributes to a round
follows from the question alone: the noise of every opened sum can be seen, which no coordinator could.
"""

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from parley.aggregator.opening_store import Counts, OpeningStore, Phase, Stored
from parley.algorithms.registry import query_of
from parley.coordinator.preparation import prepare
from parley.coordinator.store import RoundRecord, RunStore, State
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node.trail import verify as verify_trail
from parley.party.data import Shelf, understand
from parley.party.outbox import SETTLED, Outbox
from parley.party.process import party_node, settings_of
from parley.privacy.ledger import Ledger
from parley.privacy.randomness import SystemRandomness
from tests.end_to_end.killing import Watched

FALSE_ALARM = 1e-6
"""Of each run's two tests of the noise, together."""
FEATURES = 13
"""Of each party, and of no other."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def write_alike(path: Path, place: int, records: int) -> None:
    """LIBSVM text: one record, over and over."""
    row = "+1 " + " ".join(f"{FEATURES * place + column + 1}:1" for column in range(FEATURES))
    path.write_text(f"{row}\n" * records)


@dataclass(frozen=True)
class Checked:
    """A run that holds; figures for the report."""

    rounds: int
    chi_square_tail: float
    """Two-sided: how often honest noise is as far from its size."""
    largest_deviation: float
    """Of a party's direction in a round, in standard deviations."""
    shares_fetched: int
    """During the run, by a second client; all replays of the stored bytes."""


def check(federation: LocalFederation, manifest: Manifest, watched: Watched) -> Checked:
    """After all processes have stopped; AssertionErrors say what does not hold."""
    state = federation.coordinator.folder / "state"
    store = RunStore(state / "runs.sqlite", read_only=True)
    row, history, theta = store.get(manifest.digest), store.history(manifest.digest), store.theta(manifest.digest)
    store.close()
    assert row is not None
    assert row.state is State.finished, (row.state, row.outcome)
    assert theta is not None
    openings = opened_once(federation, manifest)
    totals = [recombined(manifest, index, pair) for index, pair in enumerate(openings)]
    replayed(manifest, openings, watched)
    ledgers_cover(federation, manifest, openings, totals)
    assert [record.round for record in history] == list(range(manifest.releases))
    for record, (stored, _) in zip(history, openings, strict=True):
        assert tuple(record.contributors) == stored.opened.contributors, record.round
    for node in federation.nodes.values():
        verified = verify_trail(node.folder / "state" / "trail.jsonl")
        assert not verified.incomplete_bytes, node.name
    tail, largest = honest_noise(federation, manifest, openings, totals, theta, history)
    return Checked(manifest.releases, tail, largest, watched.fetched)


KEEPING = """
CREATE TABLE kept (run TEXT NOT NULL, round INTEGER NOT NULL, share BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TRIGGER keep AFTER INSERT ON shares BEGIN
    INSERT OR REPLACE INTO kept VALUES (new.run, new.round, new.share);
END;
"""


def keep_shares(federation: LocalFederation) -> None:
    """Before the servers start: they erase shares that are no longer asked for, and the check wants all of them."""
    for node in federation.aggregators:
        path = node.folder / "state" / "openings.sqlite"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        OpeningStore(path).close()
        with closing(sqlite3.connect(path)) as database:
            database.executescript(KEEPING)


def with_share(stored: Stored, path: Path, run: str, index: int) -> Stored:
    """As it was before it was erased; if it is still there, the same."""
    with closing(sqlite3.connect(path)) as database:
        (share,) = database.execute("SELECT share FROM kept WHERE run = ? AND round = ?", (run, index)).fetchone()
    assert stored.erased or stored.opened.share == share, index
    return replace(stored, opened=replace(stored.opened, share=share))


def opened_once(federation: LocalFederation, manifest: Manifest) -> list[tuple[Stored, Stored]]:
    """Every round committed exactly once on both servers, as one and the same opening."""
    stores = [OpeningStore(node.folder / "state" / "openings.sqlite") for node in federation.aggregators]
    found = []
    for index in range(manifest.releases):
        first, second = (store.find(manifest.run, index) for store in stores)
        assert first is not None, (index, "A")
        assert second is not None, (index, "B")
        assert first.phase is second.phase is Phase.committed, (index, first.phase, second.phase)
        assert first.opened.opening == second.opened.opening, index
        assert first.opened.contributors == second.opened.contributors, index
        assert first.request_digest == second.request_digest, index
        paths = [node.folder / "state" / "openings.sqlite" for node in federation.aggregators]
        found.append(
            (with_share(first, paths[0], manifest.run, index), with_share(second, paths[1], manifest.run, index))
        )
    assert len({pair[0].opened.opening for pair in found}) == manifest.releases, "noise was used for two rounds"
    for store in stores:
        assert store.ended(manifest.run) == manifest.releases
        counts = store.counts(manifest.run)
        assert counts == Counts(manifest.releases, counts.seen), counts
        assert counts.seen <= manifest.releases
        store.close()
    return found


def recombined(manifest: Manifest, index: int, pair: tuple[Stored, Stored]) -> Integers:
    """The noised sum, in lattice steps."""
    return manifest.lattice(index).open(*(np.frombuffer(stored.opened.share, "<u8") for stored in pair))


def replayed(manifest: Manifest, openings: list[tuple[Stored, Stored]], watched: Watched) -> None:
    """Whatever left a server during the run is what it has stored."""
    for (server, index), digests in watched.shares.items():
        stored = openings[index][server].opened.share
        assert digests == {hashlib.sha256(stored).hexdigest()}, f"server {'AB'[server]} released round {index} twice"


def ledgers_cover(
    federation: LocalFederation, manifest: Manifest, openings: list[tuple[Stored, Stored]], totals: list[Integers]
) -> None:
    """The coordinator has noted exactly what the servers hold; a party every round it is in, and its bytes once."""
    ledger = Ledger.open(federation.coordinator.folder / "state" / "ledger.sqlite")
    run = ledger.runs[manifest.run]
    digests = {index: hashlib.sha256(total.astype("<i8").tobytes()).hexdigest() for index, total in enumerate(totals)}
    assert run.recorded == digests
    assert run.ended
    ledger.close()
    for node in federation.parties:
        present = {index for index, (stored, _) in enumerate(openings) if node.name in stored.opened.contributors}
        _party_covers(node, manifest, present)


def _party_covers(node: NodeProcess, manifest: Manifest, present: set[int]) -> None:
    ledger, outbox = (
        Ledger.open(node.folder / "state" / "ledger.sqlite"),
        Outbox(node.folder / "state" / "outbox.sqlite"),
    )
    run = ledger.runs[manifest.run]
    assert set(run.recorded) >= present, (node.name, present - set(run.recorded))
    sent = dict(
        outbox._database.execute("SELECT round, upload FROM answers WHERE digest = ?", (manifest.digest,)).fetchall()
    )
    assert {index: upload.hex() for index, upload in sent.items()} == run.recorded, node.name
    assert run.ended, node.name
    (held,) = outbox.runs()
    assert held.state == SETTLED, (node.name, held.state, held.reason)
    ledger.close()
    outbox.close()


def honest_noise(
    federation: LocalFederation,
    manifest: Manifest,
    openings: list[tuple[Stored, Stored]],
    totals: list[Integers],
    theta: Floats,
    history: list[RoundRecord],
) -> tuple[float, float]:
    """The run replayed from its openings: noise of the right size, nobody counted twice or left out, the same model.

    Two tests, each with half of FALSE_ALARM: the sum of squares of all noise, chi-square with a degree of freedom for
    each number of each round, two-sided; and the largest |z| along a party's contribution in any round.
    """
    prepared, mechanism = prepare(manifest), manifest.mechanism
    prepared.algorithm.begin(prepared.plan, prepared.theta, 0.0, SystemRandomness())
    parties = {node.name: _party(node, manifest) for node in federation.parties}
    squares, numbers, deviations = 0.0, 0, []
    for index, (total, (stored, _), record) in enumerate(zip(totals, openings, history, strict=True)):
        lattice = manifest.lattice(index)
        sigma = mechanism.noise_deviation(index) * manifest.noise.parts.excess  # released is more than is counted
        query = query_of(index, prepared.algorithm.ask(index))
        clear = {name: parties[name].contribution(query) for name in stored.opened.contributors}
        noise = lattice.decode(total - np.sum(list(clear.values()), axis=0)) / sigma
        squares, numbers = squares + float(noise @ noise), numbers + len(noise)
        for one in clear.values():
            direction = lattice.decode(one)
            if length := float(np.linalg.norm(direction)):
                deviations.append(float(noise @ direction) / length)
        batch = mechanism.expected_batch(index, frozenset(stored.opened.contributors))
        estimate = lattice.decode(total) / batch
        assert np.isclose(np.linalg.norm(estimate), record.estimator_norm, rtol=1e-12, atol=0), index
        prepared.algorithm.tell(index, estimate)
    assert np.array_equal(prepared.algorithm.result(), theta), "the model does not follow from the openings"
    lower, upper = float(chi2.cdf(squares, numbers)), float(chi2.sf(squares, numbers))
    tail = min(1.0, 2 * min(lower, upper))
    assert tail > FALSE_ALARM / 2, f"noise of {squares / numbers:.4f} times its variance over {numbers} numbers"
    largest = max(map(abs, deviations))
    bound = float(norm.isf(FALSE_ALARM / 4 / len(deviations)))
    assert largest < bound, f"a party's contribution is off by {largest:.2f} deviations, honest is below {bound:.2f}"
    return tail, largest


def _party(node: NodeProcess, manifest: Manifest) -> Any:
    name = NodeName(manifest.federation, Role.party, node.name)
    settings = settings_of(party_node(node.folder))
    shelf = Shelf(settings)
    sealed = shelf.seals[""].sealed()
    assert sealed is not None
    return shelf.contributor(manifest, understand(manifest), name, settings.data[0], sealed)
