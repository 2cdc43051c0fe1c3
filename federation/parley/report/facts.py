"""What a role's own room says of a run for the report, and nothing else: `content` adds what all roles have.

Each field is a public fact, a noised release, or a count that the node's own operator may show. What is for one
institution's eyes alone (losses, clipped fractions, columns cut, speeds, digests of rows) has no field here.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.federation.admission import Admission, AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.privacy.budget import budget_of
from parley.privacy.ledger import Ledger
from parley.privacy.lying import guaranteed
from parley.v1 import common_pb2


@dataclass(frozen=True)
class Left:
    """What went from this node to one other."""

    to: str
    """Its identity, or who it is in words."""
    kind: str
    bytes: int | None
    """None where the node does not count them."""
    times: int | None = None


@dataclass(frozen=True)
class Present:
    """What this node knows of a member's part."""

    answer: str = ""
    """`joined`, `refused` …; empty where this node is not told."""
    reason: str = ""
    rounds: int | None = None
    """Sums with a contribution of it; None where this node is not told."""


@dataclass(frozen=True)
class Dates:
    """Of one run, UTC, ISO 8601; empty where this node's books have none."""

    charged: str = ""
    ended: str = ""


NO_DATES: Mapping[str, Dates] = {}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of one run at one node."""

    manifest: Manifest
    meaning: Meaning | None
    """What the run claims, verified by this node; None where it was never verified."""
    state: str
    reason: str = ""
    rounds: int
    """Answered by a party, opened by an aggregator, released at a coordinator."""
    admission: Admission | None = None
    withdrawn: bool = False
    left: tuple[Left, ...] = ()
    present: Mapping[str, Present] = field(default_factory=dict)
    """By identity."""
    budgets: tuple[dict[str, Any], ...] = ()
    ledger_head: str = ""
    ends: tuple[common_pb2.SignedEnd, ...] = ()
    statements: tuple[common_pb2.SignedWord, ...] = ()
    """Both servers' newest, or this server's own."""
    proved: tuple[int, str] | None = None
    """Sums that were opened, by the ends that this node's ledger was settled on, and the evidence's digest."""
    seen: tuple[int, tuple[str, str]] | None = None
    """The newest round of which a party has checked both servers' statements, and their digests."""


def budgets(ledger: Ledger, dates: Mapping[str, Dates] = NO_DATES) -> tuple[dict[str, Any], ...]:
    """Of every population in a ledger, with its runs; the caller has verified it."""
    found = []
    for population in ledger.populations.values():
        runs = [
            {
                "run": run.name,
                "charged": dates.get(run.name, Dates()).charged or None,
                "ended": dates.get(run.name, Dates()).ended or None,
                "epsilon": run.cost.epsilon,
                "delta": run.cost.delta,
                "epsilon_if_a_server_lies": guaranteed(run.cost.epsilon_if_a_server_lies),
                "releases_charged": run.charge.event.count,
                "releases_recorded": len(run.recorded),
                "settled": run.ended,
                "caught": list(run.evidence),
            }
            for run in ledger.runs.values()
            if run.population == population.name
        ]
        budget = budget_of(ledger.policy, population.cap, population.spent)
        found.append(
            {
                "population": population.name,
                "unit": population.unit.name,
                "rule": ledger.policy.rule,
                **budget.as_json(),
                "runs": runs,
            }
        )
    return tuple(found)


def admission_of(path: Path, manifest: Manifest) -> tuple[Admission | None, bool]:
    """Of this very manifest, in a node's record, and whether it was withdrawn since."""
    if not path.exists():
        return None, False
    with closing(AdmissionRecord(path)) as record:
        for admission, withdrawn in record.all({manifest.digest: manifest}):
            if admission.manifest.digest == manifest.digest:
                return admission, withdrawn
    return None, False
