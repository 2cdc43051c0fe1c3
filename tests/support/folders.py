"""Coordinators' folders with made-up histories, as the coordinator writes them."""

import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.coordinator.errors import CoordinatorError
from parley.coordinator.operator_client import Presence
from parley.coordinator.result import write_model
from parley.coordinator.store import RoundRecord, RunStore, State
from parley.dashboard.server import Place
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node.trail import Trail
from parley.privacy.filters import Cap, Charge, Cost, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from parley.v1 import aggregator_pb2
from tests.support.documents import manifest, meaning

CLAIM = {
    "epsilon": 1.78,
    "delta": 1e-5,
    "worst_party": "hospital-a",
    "epsilon_added": 1.2e-4,
    "delta_added": 3.1e-8,
    "range_margin_bits": 17.0,
    "statement": "Computational, against any coalition of the coordinator, all other parties and one aggregator that "
    "follows the protocol: the 40 released estimators are (1.78, 1e-05)-differentially private for each row (that of "
    "hospital-a, the least protected of 3) under replace-one, by batches of fixed size drawn without replacement (rate "
    "0.05) and noise of 1.2 times the sensitivity, accountant pld; the finite noise sampler takes 0.00012 of epsilon "
    "and 3.1e-08 of delta. If that aggregator does anything at all, they are (8.4, 1e-05)-differentially private by "
    "the noise that the other one adds of its own. Only the two aggregators together could break it.",
    "epsilon_if_a_server_lies": 8.4,
}


def record(place: int, parties: Sequence[str], of: int, start: float, rng: random.Random) -> RoundRecord:
    gone = place / max(1, of)
    missing = [party for party in parties[1:2] if 0.42 < gone < 0.47 or rng.random() < 0.015]
    waited, agreed, noised = 0.6 + 0.4 * rng.random() + 2.0 * bool(missing), 0.04, 0.11 + 0.05 * rng.random()
    loss = 0.69 * math.exp(-4 * gone) + 0.33
    noise = 0.21 if place else 0.16
    every = max(1, of // 50)
    evaluation = {
        "loss": loss + 0.01 * rng.random(),
        "error": 0.17 + 0.3 * math.exp(-5 * gone),
        "auc": 0.91 - 0.4 * math.exp(-6 * gone),
    }
    return RoundRecord(
        round=place, at=start + 1.5 * place, seconds=waited + agreed + noised + 0.12, waited_seconds=waited,
        agreed_seconds=agreed, noised_seconds=noised, stepped_seconds=0.03,
        contributors=[party for party in parties if party not in missing], missing=missing,
        estimator_norm=math.hypot(noise, 1.1 * math.exp(-6 * gone)) * (0.9 + 0.2 * rng.random()), noise_norm=noise,
        bytes_down=3 * 1200, bytes_up=3 * (8 * 54 + 96), evaluation=evaluation if place % every == 0 else {},
    )  # fmt: skip


def write_run(
    store: RunStore,
    document: Manifest,
    rounds: int,
    state: State = State.running,
    outcome: str = "",
    claim: Mapping[str, Any] = CLAIM,
) -> None:
    """As the driver leaves it after so many rounds."""
    rng = random.Random(7)
    digest, parties = document.digest, document.parties
    store.submit(digest, document.run, document.canonical)
    store.set_claim(digest, claim)
    for role in (Role.party, Role.aggregator):
        for name in document.identities(role):
            store.answer(digest, name.uri, "joined")
    store.set_state(digest, State.running)
    start = time.time() - 1.5 * rounds - 2
    with store._transaction() as database:
        records = [record(place, parties, document.releases, start, rng) for place in range(rounds)]
        database.executemany(
            "INSERT INTO history VALUES (?, ?, ?)", [(digest, each.round, json.dumps(asdict(each))) for each in records]
        )
        database.execute("UPDATE runs SET round = ?, started = ? WHERE digest = ?", (rounds, start, digest))
    if state is not State.running:
        store.set_state(digest, state, outcome)


def write_lines(path: Path, run: str, rounds: int) -> None:
    """A log as `parley.node.logs` writes it, its last hundred lines."""
    who = {"role": "coordinator", "name": "lead"}
    lines: list[dict[str, Any]] = []
    for place in range(max(0, rounds - 100), rounds):
        second = f"2026-11-18T{9 + place // 3600 % 12:02}:{place // 60 % 60:02}:{place % 60:02}.120+00:00"
        if place % 17 == 5:
            lines.append({"time": second, "level": "warning", **who, "event": "round.short", "run": run, "round": place,
                          "missing": ["hospital-b"]})  # fmt: skip
        lines.append({"time": second, "level": "info", **who, "event": "round.opened", "run": run, "round": place,
                      "seconds": 1.21, "contributors": ["hospital-a", "hospital-c"]})  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_books(state: Path, document: Manifest, rounds: int) -> None:
    """A ledger with this run and one before it, and a trail."""
    ledger = Ledger.create(state / "ledger.sqlite", Policy())
    population = f"{document.federation}: each party's row"
    ledger.register(population, ROW, Cap(10.0, 1e-3))
    event = next(iter(document.mechanism.events().values()))
    for run, epsilon in (("pilot", 0.5), (document.run, CLAIM["epsilon"])):
        cost = Cost(float(epsilon), 1e-5)  # type: ignore[arg-type]
        ledger.reserve(run, population, Charge(document.mechanism.digest, event, ROW, EXACT, "pld", cost))
    for place in range(min(rounds, 20)):
        ledger.record(document.run, place, f"{place:064x}")
    ledger.close()
    with Trail.open(state / "trail.jsonl", document.identities(Role.coordinator)[0]) as trail:
        trail.append("run.submitted", run=document.run, manifest=document.digest.hex())


def coordinator_folder(folder: Path, rounds: int | None, **changes: Any) -> tuple[Path, Manifest]:
    """A state folder with one run of so many rounds; None is a coordinator that has had no run."""
    state = folder / "state"
    state.mkdir(mode=0o700, parents=True)
    steps = max(39, (rounds or 0) + (rounds or 0) // 2)
    document = manifest(
        **{"mechanism.steps": steps, "mechanism.noise_multiplier": 1.2 * math.sqrt(steps / 39), **changes}
    )
    store = RunStore(state / "runs.sqlite")
    if rounds is not None:
        write_run(store, document, rounds)
        write_lines(state / "log.jsonl", document.run, rounds)
        write_books(state, document, rounds)
    store.close()
    return state, document


class FakeOperator:
    """Notes what it is asked to do."""

    def __init__(self, problem: str = "", caught: bool = False) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.problem = problem
        self.caught = caught
        self.troubles: tuple[tuple[str, str, float], ...] = ()
        self.gathering_until = 0.0

    def stop(self, run: str, final: bool) -> str:
        self.asked.append(("stop", run, "final" if final else "rest"))
        if self.problem:
            raise CoordinatorError(self.problem)
        return "stopped"

    def resume(self, run: str) -> str:
        self.asked.append(("resume", run))
        return "running"

    def presence(self, run: str) -> Presence:
        return Presence(10, frozenset({"hospital-a"}), frozenset(), 0.3, self.troubles, self.gathering_until)


async def status(name: NodeName) -> aggregator_pb2.StatusResponse:
    lost = 0 if name.name == "north" else 2048
    return aggregator_pb2.StatusResponse(
        pool_available=812_300, pool_capacity=1 << 20, pool_produced=2_400_000, pool_used=1_585_652 - lost,
        pool_lost=lost, version="0.1.0", share_bytes=48_230_144,
    )  # fmt: skip


async def caught(name: NodeName) -> aggregator_pb2.StatusResponse:
    """Of servers whose noise is under audit, where north has caught south."""
    said = await status(name)
    said.covert.MergeFrom(
        aggregator_pb2.CovertPool(
            available=8_100, capacity=32_768, produced=40_900, used=32_800, lanes=1024, audits_made=7, audits_passed=5,
        )
    )  # fmt: skip
    if name.name == "north":
        said.covert.resting = "evidence 3f9c… waits for `parley evidence answer`"
        said.covert.available = 0
        said.evidence.append(bytes(32))
    return said


def place_of(state: Path, operator: FakeOperator | None = None) -> Place:
    operator = operator or FakeOperator()
    return Place(
        "lead", "cardio", state, state / "ledger.sqlite", state / "trail.jsonl", state / "models",
        caught if operator.caught else status, operator,
    )  # fmt: skip


def write_finished_model(state: Path, document: Manifest) -> Path:
    """As the coordinator leaves it when a run has finished."""
    path = state / "models" / f"{document.run}.npz"
    theta = np.arange(document.model.dimension) / 3
    write_model(path, theta, document, replace(meaning(), manifest=document), {"accuracy": 0.75})
    return path
