"""Where a run stands with this party's people: who has signed, who objects, who refused it, who let it in and when."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from parley.federation.admission import Admission, AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.node.reviewer_key import reviewed
from parley.party.data import data_set_of
from parley.party.review import APPROVAL, OBJECTION, Counted, counted, in_force
from parley.party.review_store import RefusedHere, ReviewStore
from parley.party.settings import Settings


@dataclass(frozen=True)
class Objection:
    """A reviewer's signed no, which others have to answer. The reason stays on this machine."""

    reviewer: str
    reason: str
    at: str
    digest: str


@dataclass(frozen=True)
class Standing:
    """Where a run stands with this party's people."""

    needed: int
    """Signatures; 0 where one person's word is enough."""
    signatures: tuple[Counted, ...] = ()
    objections: tuple[Objection, ...] = ()
    """Those that stand: an objection is over once its reviewer has signed for the run."""
    refused: RefusedHere | None = None

    @property
    def enough(self) -> bool:
        return self.refused is None and sum(each.counts for each in self.signatures) >= self.needed

    def as_json(self) -> dict[str, Any]:
        """For this node's operator."""
        signatures = [
            {
                "reviewer": each.reviewer, "at": each.at, "expires": each.expires, "counts": each.counts,
                "why_not": each.why_not, "answer": each.statement.get("answer", ""),
            }
            for each in self.signatures
        ]  # fmt: skip
        return {
            "needed": self.needed,
            "enough": self.enough,
            "signatures": signatures,
            "objections": [asdict(each) for each in self.objections],
            "refused": None if self.refused is None else asdict(self.refused),
        }


def standing(settings: Settings, manifest: Manifest, charge: Mapping[str, Any] | None = None) -> Standing:
    """Who has signed, who objects, whether it was refused. Signatures of another `charge` do not count."""
    return standing_of(settings, manifest.digest, manifest.run, charge)


def standing_of(settings: Settings, manifest: bytes, run: str, charge: Mapping[str, Any] | None = None) -> Standing:
    """The same by the manifest's digest."""
    digest, held = manifest.hex(), in_force(settings)
    if not settings.review.exists():
        return Standing(0)
    with closing(ReviewStore(settings.review)) as store:
        refused, against = store.refusal(digest), store.votes(OBJECTION, digest)
    if held is None:
        return Standing(0, refused=refused)
    name = settings.identity.load().name
    signed = counted(settings, held, name, APPROVAL, digest)
    valid = {each.reviewer: each.id for each in signed if each.counts}
    objections = {}
    for vote in against:
        if not reviewed(vote.key, OBJECTION, vote.statement, vote.signature):
            continue
        objections[vote.reviewer] = _objection(vote.id, vote.reviewer, vote.statement)
    stand = tuple(each for at, each in objections.values() if valid.get(each.reviewer, -1) < at)
    return Standing(
        held.review.approval, tuple(_answering(each, run, stand, charge) for each in signed), stand, refused
    )


def charge_signed(settings: Settings, manifest: Manifest, meaning: Meaning) -> dict[str, Any]:
    """What is signed of a run: what it would charge, and whose budget."""
    return {
        "population": data_set_of(settings, manifest, settings.identity.load().name).population,
        "epsilon": max(meaning.epsilon, manifest.guarantee.epsilon),
        "delta": meaning.delta,
        "epsilon_if_a_server_lies": meaning.epsilon_if_a_server_lies,
    }


def holds(settings: Settings, manifest: Manifest, charge: Mapping[str, Any] | None = None) -> bool:
    """Whether an admission by hand may be gone by, for this `charge`: always where no signatures are demanded."""
    held = in_force(settings)
    return held is None or standing(settings, manifest, charge).enough


def refused_here(settings: Settings, manifest: Manifest) -> bool:
    if not settings.review.exists():
        return False
    with closing(ReviewStore(settings.review)) as store:
        return store.refusal(manifest.digest.hex()) is not None


@dataclass(frozen=True)
class AdmittedBy:
    """Who let a run in, and when."""

    digest: str
    how: str
    by: str
    at: str
    withdrawn: bool
    overridden: tuple[str, ...]


def admissions_of(settings: Settings) -> dict[str, AdmittedBy]:
    """By the run's name."""
    if not settings.admissions.exists():
        return {}
    with closing(AdmissionRecord(settings.admissions)) as record:
        return {each.manifest.run: _admitted_by(each, withdrawn) for each, withdrawn in record.all()}


def _admitted_by(held: Admission, withdrawn: bool) -> AdmittedBy:
    return AdmittedBy(held.manifest.digest.hex(), held.how, held.approved_by, held.at, withdrawn, held.overridden)


def with_people(settings: Settings, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of `parley.party.overview.runs_of`: who let each run in and when, and where it stands with people here."""
    admitted = admissions_of(settings)
    found = []
    for each in runs:
        by = admitted.get(each["run"])
        people = standing_of(settings, bytes.fromhex(each["digest"]), each["run"]).as_json()
        ours = by is not None and by.digest == each["digest"]
        found.append(each | {"admitted": asdict(by) if by is not None and ours else None, "people": people})
    return found


def _objection(at: int, reviewer: str, statement: bytes) -> tuple[int, Objection]:
    body = json.loads(statement)
    return at, Objection(reviewer, body["reason"], body["at"], hashlib.sha256(statement).hexdigest())


def _answering(vote: Counted, run: str, stand: tuple[Objection, ...], charge: Mapping[str, Any] | None) -> Counted:
    """It counts only beside the answers that are due."""
    why = vote.why_not
    if vote.counts:
        answered = set(vote.statement.get("answers", ()))
        if vote.statement.get("run") != run:
            why = "is of another run"
        elif any(each.reviewer == vote.reviewer for each in stand):
            why = "was taken back by an objection"
        elif any(each.digest not in answered for each in stand):
            why = "does not answer an objection that came later: sign once more"
        elif charge is not None and vote.statement.get("charge") != charge:
            why = "is of another charge"
    return replace(vote, counts=not why, why_not=why)
