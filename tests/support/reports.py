"""Signed reports for tests, of a node that has no process: its key, its pins and its facts are real."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from parley.attacks.documents import write_party
from parley.federation.admission import Admission
from parley.federation.meaning import Meaning
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.node.endings import sign_end
from parley.node.node_file import AnyNode, read_node
from parley.node.pins import Pin, Pins
from parley.report.content import content_of
from parley.report.facts import Facts, Left, Present
from parley.report.signed import Report, sign
from tests.support.documents import meaning
from tests.support.stage import LEAD, NORTH, PARTY, SOUTH

NOW = dt.datetime(2026, 11, 20, 3, 14, 15, tzinfo=dt.UTC)
LEGAL = {
    "purpose": "Which patients need a catheter examination",
    "legal_basis": "Art. 9(2)(j) GDPR",
    "ethics_number": "EK 2026-114",
    "expires": "2999-12-31",
    "retention": "The model is kept for ten years",
}
PEOPLE: dict[str, Any] = {
    "legal": LEGAL,
    "parties.0.legal_entity": "St. Anna Hospital",
    "parties.0.contact": "privacy@anna.example",
    "coordinator.contact": "lead@example.org",
}


@cache
def authority() -> ThrowAwayAuthority:
    return ThrowAwayAuthority("cardio")


@cache
def identity() -> Identity:
    """hospital-a's, which has pinned the others."""
    issued = {name: authority().issue_as(name) for name in (PARTY, NORTH, SOUTH, LEAD)}
    return replace(issued[PARTY], pins=Pins({name: (Pin(each.pin),) for name, each in issued.items()}))


def party(folder: Path) -> AnyNode:
    """Its folder, with a node.toml and no state."""
    folder.mkdir(exist_ok=True)
    write_party(folder)
    return read_node(folder)


def run(name: str = "heart-1", **changes: Any) -> dict[str, Any]:
    """One line of a budget."""
    return {
        "run": name, "charged": "2026-11-01T10:00:00+00:00", "ended": "2026-11-02T10:00:00+00:00", "epsilon": 1.78,
        "delta": 1e-5, "epsilon_if_a_server_lies": 4.2, "releases_charged": 40, "releases_recorded": 40,
        "settled": True, "caught": [], **changes,
    }  # fmt: skip


def budget(*runs: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "population": "patients", "unit": "row", "rule": "basic", "epsilon_cap": 4.0, "delta_cap": 1e-4,
        "epsilon_spent": 1.78, "delta_spent": 1e-5, "epsilon_left": 2.22, "delta_left": 9e-5,
        "epsilon_if_a_server_lies": 4.2, "delta_if_a_server_lies": 1e-5, "beyond_the_cap": False,
        "runs": list(runs or (run(),)), **changes,
    }  # fmt: skip


def facts(claim: Meaning | None = None, **changes: Any) -> Facts:
    """Of a run that is over; `changes` are fields of it."""
    found = claim or meaning(**PEOPLE)
    manifest = found.manifest
    ends = tuple(sign_end(authority().issue_as(name), manifest.digest, 40) for name in (NORTH, SOUTH))
    made = Facts(
        manifest=manifest,
        meaning=found,
        state="over, by the signed word of both aggregators",
        reason="finished",
        rounds=40,
        admission=Admission(manifest, "hand", "Dr. Ada Osei", "2026-11-01T09:00:00+00:00", ("a limit",)),
        left=(Left(NORTH.uri, "halves", 1234, 40), Left(LEAD.uri, "words", None)),
        present={PARTY.uri: Present(rounds=40)},
        budgets=(budget(),),
        ledger_head="4:" + "ab" * 32,
        ends=ends,
        proved=(40, "cd" * 32),
        seen=(39, ("ef" * 32, "01" * 32)),
    )
    return replace(made, **changes)


def content(folder: Path, found: Facts | None = None) -> dict[str, Any]:
    return content_of(party(folder), identity(), found or facts(), "7:" + "12" * 32, NOW)


def report(folder: Path, found: Facts | None = None) -> Report:
    return sign(identity(), content(folder, found))
