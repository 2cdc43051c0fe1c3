"""A person admits a run at a party by hand, against its policy or without one; final reasons stay final."""

from collections.abc import Callable
from dataclasses import dataclass

from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.learning.holding import read_holding
from parley.node.evidence import EvidenceFolder, waits_for_answer
from parley.node.trail import Trail
from parley.party.admission import policy_of
from parley.party.books import epsilon_spent, open_ledger, spent_if_a_server_lies
from parley.party.data import data_set_of, require_equal, understand
from parley.party.settings import Settings


@dataclass(frozen=True)
class Approved:
    """What came of it, and what the run means for the person who decides."""

    meaning: Meaning
    admitted: bool
    reasons: list[str]
    """Why not, or what was overridden."""


def approve(settings: Settings, manifest: Manifest, digest: str, by: str, say: Callable[[str], None]) -> Approved:
    """`digest` is of the manifest that the person has read; `say` tells them what takes time."""
    if digest.strip().lower() != manifest.digest.hex():
        raise ApprovalError("the digest is not this manifest's: read the manifest, and give the digest it shows")
    if pending := EvidenceFolder(settings.state).against(manifest):
        raise ApprovalError(waits_for_answer(pending))
    say("computing what the run costs, and the law of its noise")
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    ledger, record = open_ledger(settings), AdmissionRecord(settings.admissions)
    name = settings.identity.load().name
    data = data_set_of(settings, manifest, name)
    require_equal(read_holding(data.schema), manifest, understand(manifest), name)
    meaning, _ = verify_apart_with_charge(manifest, name.name, ledger.policy, settings.verified)
    try:
        policy = policy_of(settings)
    except PolicyError as error:
        say(f"the policy is not understood, so it admits nothing: {error}")
        policy = None
    spent = epsilon_spent(ledger, data.population)
    lying = spent_if_a_server_lies(ledger, data.population)
    decision = approve_by_hand(record, meaning, name, policy, spent, digest, by, lying)
    if isinstance(decision, Refusal):
        return Approved(meaning, False, [str(reason) for reason in decision.reasons])
    with Trail.open(settings.trail, name) as trail:
        trail.append("run.approved", durable=True, run=manifest.run, manifest=manifest.digest.hex(), approved_by=by)
    return Approved(meaning, True, list(decision.overridden))
