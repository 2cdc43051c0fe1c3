"""A lower bound on ε of a user's network, from what a coordinator is given in runs of real federations.

Two parties, two aggregators and a coordinator as processes: TLS, the module in a process of its own, shares, the noise
of the two servers' protocol. Every record is a canary: its gradient has a direction of its own, and its label, drawn by
a coin, says which way along it. All records are in every round and the step is next to nothing, so that an adversary
who knows all records but one loses nothing of what a round says about that one.

Three looks share the doubt. A whole run: how many coins are guessed from all of its rounds, with no assumption
(Steinke, Nasr and Jagielski 2023; every run has coins of its own). A round: exact limits on error rates, if rounds and
records are alike and their noise is drawn afresh. The run through its rounds: the least signal over noise that the
rounds' numbers allow, if the noise is normal besides.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.bench.train_bench import admit_beforehand
from parley.bench.train_data import DELTA, LAYOUT, schema
from parley.bench.watched_node import FAULTS, changes, opened
from parley.cli.console import progress
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation, terminated_like_interrupted
from parley.federation.fields import Plain
from parley.federation.manifest import Manifest, Operator
from parley.learning.records import load
from parley.mpc.parts import JOINT
from parley.node.errors import NodeError
from parley.privacy.accountants import accountant
from parley.privacy.audit import Records, Transcript, measured, most_noise, one_run_test
from parley.privacy.ledger import Ledger
from parley.privacy.randomness import Randomness, SystemRandomness
from parley.study.manifests import draft
from parley.study.opened import opened as opened_here

Floats = NDArray[np.float64]

PACKAGE = "users_network"
SOURCE = '''
"""A network over a table's columns."""

import torch
from torch import nn


def build(columns, width=2):
    """The last layer stays as it is, so that records with no column in common have no direction in common."""
    last = nn.Linear(width, 1, bias=False)
    with torch.no_grad():
        last.weight.copy_(torch.linspace(1, -1, width)[None])
    last.requires_grad_(False)
    return nn.Sequential(nn.Linear(columns, width, bias=False), nn.Tanh(), last)
'''
PARTIES = ("party-1", "party-2")
CLIP = 0.1
REACH = 4
"""Times the clip norm: every record's gradient is longer, so that a clip that is too long shows."""
STEP = 1e-9
STILL = 1e-6
"""By which a model may have moved, and no direction with it."""
ROUND_DELTA = 0.05
"""That some thousand rounds can resolve: a wrong noise or clip shows at any point of the curve ε(δ)."""
LOOKS = 3


@dataclass(frozen=True)
class Size:
    """Of an audit: runs, each of a federation of its own; rounds and records of a run, and its ε at `DELTA`."""

    runs: int
    rounds: int
    records: int
    epsilon: float


@dataclass
class Federations:
    """Runs of real federations, as many as the records fill; a ReleasePath, whose coordinates are the records."""

    folder: Path
    manifest: Manifest
    fault: str | None
    charged: float = 0.0
    """ε of a run in a party's ledger."""
    seen: list[tuple[Records, Transcript]] = field(default_factory=list)

    def run(self, records: Records) -> Transcript:
        """Every run with a part of the records; no record is in two."""
        size = sum(self.manifest.mechanism.sampler(party, 0).units for party in PARTIES)
        runs = [
            self._run(place, records.labels[start : start + size])
            for place, start in enumerate(range(0, len(records.labels), size))
        ]
        rounds = np.concatenate(runs, axis=1)
        found = Transcript(tuple((each,) for each in rounds))
        self.seen.append((records, found))
        return found

    def _run(self, place: int, labels: Floats) -> Floats:
        """float64[rounds, records]: each opened sum along every record's own direction."""
        folder = self.folder / str(place)
        folder.mkdir(parents=True)
        data = write_records(folder, labels)
        with LocalFederation(folder / "nodes", self.manifest, data, layout=LAYOUT) as federation:
            for node in federation.nodes.values():
                admit_beforehand(node, self.manifest)
                if changed := changes(node.role, self.fault):
                    node.before = ("parley.bench.watched_node", changed)
            federation.start()
            coordinator, began = Coordinator(federation.coordinator.folder), time.monotonic()
            *_, (row, _) = coordinator.follow(coordinator.submit(self.manifest))
            if row.state is not State.finished:
                raise NodeError(f"the run ended as {row.state}: {row.outcome}")
            progress(f"{self.folder.name}: run {place + 1} took {time.monotonic() - began:.1f} s")
            with closing(Ledger.open(folder / "nodes" / PARTIES[0] / "state" / "ledger.sqlite")) as ledger:
                self.charged = ledger.runs[self.manifest.run].charge.cost.epsilon
        given = [opened(federation.coordinator.folder, each) for each in range(self.manifest.releases)]
        along = directions(data, given[0][0])
        if any(np.abs(point - given[0][0]).max() > STILL for point, _ in given):
            raise NodeError("the model has moved, and directions with it: use a smaller step")
        return np.stack([along @ self.manifest.lattice(at).decode(total) for at, (_, total) in enumerate(given)])


def audit(size: Size, confidence: float, faults: Sequence[str], fault_runs: int) -> dict[str, Any]:
    """The honest federation, then each fault; the fields of the JSON."""
    began = time.monotonic()
    with terminated_like_interrupted(), tempfile.TemporaryDirectory(prefix="parley-audit-") as name:
        home = Path(name)
        with installed(home / "site"):
            manifest = manifest_of(size)
            told = {
                "parties": len(PARTIES),
                "records": size.records,
                "parameters": manifest.model.dimension,
                "rounds": size.rounds,
                "noise_multiplier": manifest.mechanism.noise_multiplier,
                "confidence": confidence,
            }

            def of(fault: str | None, runs: int) -> dict[str, Any]:
                path = Federations(home / (fault or "honest"), manifest, fault)
                return examined(path, runs, confidence, SystemRandomness())

            honest = of(None, size.runs)
            found = [{"fault": FAULTS[each][0], **of(each, fault_runs)} for each in faults]
    return {**told, "honest": honest, "faults": found, "seconds": time.monotonic() - began}


def bad_news(found: Mapping[str, Any]) -> str | None:
    """What a result is against; None where the audit passes."""
    if any(exceeds(look) for look in found["honest"]["looks"]):
        return "the honest federation leaks more than it claims: stop all runs and look for the fault"
    missed = [each["fault"] for each in found["faults"] if not any(exceeds(look) for look in each["looks"])]
    return f"the audit misses {', '.join(missed)}: give it more runs" if missed else None


def exceeds(look: Mapping[str, Any]) -> bool:
    """Whether more was found than is claimed."""
    return bool(look["epsilon_lower_bound"] > look["epsilon_claimed"])


@contextmanager
def installed(site: Path) -> Iterator[None]:
    """A user's package, outside the repository, on the path of this process and of those that it starts."""
    (site / PACKAGE).mkdir(parents=True)
    (site / PACKAGE / "__init__.py").write_text('"""Networks of a user."""\n')
    (site / PACKAGE / "nets.py").write_text(SOURCE)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *([before] if before else [])])
    sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path.remove(str(site))
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def model_of(records: int) -> dict[str, Any]:
    """One column a record."""
    return {"kind": f"torch:{PACKAGE}.nets:build", "options": {"columns": records}}


def manifest_of(size: Size) -> Manifest:
    """All records in every round, and no noise but what the claim counts."""
    sizes = {party: len(part) for party, part in shared(np.zeros(size.records)).items()}
    return draft(
        run="audit", federation="bench", schema=schema(size.records), sizes=sizes, epsilon=size.epsilon, delta=DELTA,
        model=model_of(size.records), parts=JOINT,
        algorithm={"name": "dp-gd", "clip_norm": CLIP, "steps_taken": size.rounds, "step": STEP},
        aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "Lead Institute"),
    )  # fmt: skip


def shared(labels: Floats) -> dict[str, Floats]:
    """Each party's part of the records, in order."""
    return dict(zip(PARTIES, np.array_split(labels, len(PARTIES)), strict=True))


def write_records(folder: Path, labels: Floats) -> dict[str, list[Path]]:
    """Each record has one column, which no other has."""
    data, column = {}, 0
    for party, part in shared(labels).items():
        path = folder / f"{party}.libsvm"
        rows = [f"{'+1' if label else '-1'} {column + place + 1}:1" for place, label in enumerate(part)]
        path.write_text("\n".join(rows) + "\n")
        data[party], column = [path], column + len(part)
    return data


def directions(data: Mapping[str, list[Path]], point: Floats) -> Floats:
    """Of every record's gradient with label 0, each of length 1: with label 1 it points the other way."""
    found = []
    columns = sum(len(paths[0].read_text().splitlines()) for paths in data.values())
    model = opened_here(Plain.of(model_of(columns)), schema(columns))
    for paths in data.values():
        rows = load(paths, schema(columns), LAYOUT).rows
        found.append(model.gradients(rows.take(np.arange(len(rows))), np.zeros(len(rows)), point))
    gradients = np.concatenate(found)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    along = gradients / lengths
    if lengths.min() < REACH * CLIP or np.abs(along @ along.T - np.eye(len(along))).max() > STILL:
        raise NodeError("the records' gradients are too short, or share a direction: this audit would see less")
    return np.asarray(along, np.float64)


def examined(path: Federations, runs: int, confidence: float, coins: Randomness) -> dict[str, Any]:
    """So many runs, and the three looks at them; all hold together with this confidence."""
    mechanism, rule, doubt = path.manifest.mechanism, accountant("pld"), (1 - confidence) / LOOKS
    units = runs * sum(mechanism.sampler(party, 0).units for party in PARTIES)
    guessed = one_run_test(path, mechanism, 1.0, DELTA, 1 - doubt, coins, units=units)
    ((records, transcript),) = path.seen
    values = np.stack([each for (each,) in transcript.openings]) / mechanism.sensitivity(0)
    plain, flipped = (values[:, records.labels == label].ravel() for label in (0, 1))
    once = replace(mechanism, steps=1)
    claimed = rule.epsilon(once.event(PARTIES[0]), ROUND_DELTA).epsilon
    bound, power = measured(plain, flipped, ROUND_DELTA, doubt, claimed)
    noise = most_noise(plain, flipped, doubt)
    event = mechanism.event(PARTIES[0]).with_noise(noise)
    whole = {"delta": DELTA, "epsilon_claimed": path.charged}
    return {
        "runs": runs,
        "looks": [
            {
                "of": "a run",
                **whole,
                "epsilon_lower_bound": guessed.epsilon_lower_bound,
                "statistic": guessed.statistic,
            },
            {
                "of": "a round",
                "delta": ROUND_DELTA,
                "epsilon_claimed": claimed,
                "epsilon_lower_bound": bound,
                "statistic": f"{len(plain)} and {len(flipped)} numbers",
                "power": power,
            },
            {
                "of": "a run, through its rounds",
                **whole,
                "epsilon_lower_bound": rule.epsilon(event, DELTA).epsilon,
                "statistic": f"noise at most {noise:.4g} of the sensitivity",
            },
        ],
    }
