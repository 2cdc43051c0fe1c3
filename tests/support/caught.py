"""Real evidence: two servers with a node's keys each, one of which lies in a batch that the other one audits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parley.federation.names import NodeName
from parley.mpc.covert import COVERT_LABEL, Signing
from parley.mpc.evidence import Evidence
from parley.node import signatures
from parley.node.credentials import Identity
from parley.node.docket import Docket, Pair, context_of, signed_by
from parley.node.evidence import EvidenceFolder, Held
from parley.node.pins import Pins
from tests.support.covert import Auditor, Leak, lying, run

NORTH_URI, SOUTH_URI = "parley://cardio/aggregator/north", "parley://cardio/aggregator/south"
PAIR: Pair = (NodeName.parse(NORTH_URI), NodeName.parse(SOUTH_URI))


def signing_with(mine: Identity, theirs: Identity, pair: Pair) -> Signing:
    return Signing(
        key=mine.pin,
        sign=lambda statement: signatures.sign(mine, COVERT_LABEL, statement),
        peer_keys=lambda: (theirs.pin,),
        verify=signed_by,
        context=context_of(pair),
    )


def evidence_by(identities: Sequence[Identity], accused: int = 1, pair: Pair | None = None) -> Evidence:
    """Of a session of its own: server `accused` leaks, and the other one audits."""
    a, b = identities
    named = pair or (a.name, b.name)
    classes = (Auditor, lying(Leak)) if accused == 1 else (lying(Leak), Auditor)
    ends = run(1, classes=classes, signings=(signing_with(a, b, named), signing_with(b, a, named)))
    (found,) = ends[1 - accused].evidence
    return found


def no_evidence_by(identities: Sequence[Identity]) -> Evidence:
    """What a liar makes up against an honest server: well-formed, signed by the accused, and no departure of its."""
    a, b = identities
    pair = (a.name, b.name)
    ends = run(1, classes=(Auditor, Auditor), signings=(signing_with(a, b, pair), signing_with(b, a, pair)))
    (found,) = ends[0].session.accusations
    evidence: Evidence = found
    return evidence


@dataclass
class Court:
    """A docket, and what came of it."""

    docket: Docket
    folder: EvidenceFolder
    charged: list[Held]
    noted: list[tuple[str, str]]
    noting: list[Exception]
    """What the next words to the trail come to, instead of being written."""


def court(
    state: Path, pins: Callable[[], Pins], runs: Sequence[str] = ("heart-1",), pairs: Sequence[Pair] = (PAIR,),
    charge: Callable[[Held], None] = lambda held: None,
) -> Court:  # fmt: skip
    folder = EvidenceFolder(state)
    charged: list[Held] = []
    noted: list[tuple[str, str]] = []
    noting: list[Exception] = []

    def charges(held: Held) -> None:
        charge(held)
        charged.append(held)

    def note(event: str, **fields: object) -> None:
        if noting:
            raise noting.pop()
        noted.append((event, str(fields.get("kind", ""))))
        traced.add((event, fields.get("digest")))

    def known(digest: str) -> bool:
        return ("evidence.kept", digest) in traced

    traced: set[tuple[str, object]] = set()
    made = Docket(folder, pins, lambda: pairs, lambda server: runs, charges, note, known)
    return Court(made, folder, charged, noted, noting)


def answer(folder: EvidenceFolder, digest: str) -> None:
    """As an operator does it."""
    folder.change(digest, answer=folder.answered(digest, "N. N.", "another machine").answer)
