"""People decide on a run: one person's word, or reviewers' signatures, objections to it, and a refusal.

Where the policy in force has [review], a run that it does not admit by itself is admitted once as many reviewers have
signed as it demands, each of whom has seen what it would charge and has answered every objection that stands. Such an
approval counts until it runs out, or is objected to, or its policy is changed; once the run is charged it has begun.
What others hear of all this is whether this party takes part. Final reasons stay final, whoever signs.
"""

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.federation.policy import Policy, reasons_against
from parley.learning.holding import read_holding
from parley.node.evidence import EvidenceFolder, waits_for_answer
from parley.node.facts import person, sentence
from parley.node.reviewer_key import ReviewerKey
from parley.node.trail import Trail
from parley.party.books import epsilon_spent, open_ledger, spent_if_a_server_lies
from parley.party.data import data_set_of, require_equal, understand
from parley.party.review import (
    APPROVAL,
    OBJECTION,
    InForce,
    in_force,
    people,
    policy_of,
    require_newest,
    require_reviewer,
    sign,
)
from parley.party.review_store import ReviewStore
from parley.party.settings import Settings
from parley.party.standing import Standing, charge_signed, refused_here, standing

Say = Callable[[str], None]


@dataclass(frozen=True)
class Approved:
    """What came of it, and what the run means for the person who decides."""

    meaning: Meaning
    admitted: bool
    reasons: list[str]
    """Why not, or what was overridden."""


@dataclass(frozen=True)
class Signed:
    """What one more signature has brought."""

    standing: Standing
    approved: Approved
    """`admitted` is false, without a reason, while more signatures are due."""


def approve(
    settings: Settings, manifest: Manifest, digest: str, by: str, say: Say, shown: tuple[str, ...] | None = None
) -> Approved:
    """One person's word. `digest` is of the manifest that the person has read; `say` tells them what takes time.

    `shown` is what they were told that the policy holds against it: no more than that is overridden.
    """
    _require_read(settings, manifest, digest)
    if (held := _reviewed(settings)) is not None:
        known = ", ".join(sorted(held.review.reviewers))
        raise ApprovalError(
            f"the policy in force demands {held.review.approval} signatures of its reviewers ({known}): give "
            "--reviewer NAME --key FILE"
        )
    meaning = _meaning(settings, manifest, say)
    try:
        policy = policy_of(settings)
    except PolicyError as error:
        say(f"the policy is not understood, so it admits nothing: {error}")
        policy = None
    return _admitted(settings, manifest, digest, by, policy, meaning, shown)


def sign_approval(
    settings: Settings, manifest: Manifest, digest: str, reviewer: str, key: ReviewerKey, say: Say, answer: str = ""
) -> Signed:
    """A reviewer's signature under a run; with enough of them it is admitted."""
    _require_read(settings, manifest, digest)
    held = _require_reviewed(settings)
    require_reviewer(held, reviewer, key)
    _require_open(settings, manifest)
    others = [each for each in standing(settings, manifest).objections if each.reviewer != reviewer]
    if others and not answer.strip():
        said = "; ".join(f"{each.reviewer} on {each.at}: {each.reason}" for each in others)
        raise ApprovalError(f"there are objections to answer ({said}): read them, and give --answer TEXT")
    if answer and sentence(answer) is None:
        raise ApprovalError("an answer is one line of at most 300 characters: shorten it")
    meaning = _meaning(settings, manifest, say)
    if final := _final(settings, manifest, held.policy, meaning):
        return Signed(standing(settings, manifest), Approved(meaning, False, final))
    name = settings.identity.load().name
    charge = charge_signed(settings, manifest, meaning)
    facts = {
        "run": manifest.run,
        "charge": charge,
        "answers": sorted(each.digest for each in others),
        "answer": answer,
    }
    sign(settings, held, name, APPROVAL, manifest.digest.hex(), reviewer, key, facts, manifest.run)
    found = standing(settings, manifest, charge)
    if not found.enough:
        return Signed(found, Approved(meaning, False, []))
    names = ", ".join(sorted(each.reviewer for each in found.signatures if each.counts))
    return Signed(found, _admitted(settings, manifest, digest, people(names) or "", held.policy, meaning))


def object_to(settings: Settings, manifest: Manifest, reviewer: str, key: ReviewerKey, reason: str) -> Standing:
    """A reviewer's no: whoever signs for the run has to answer it. With too few reviewers left the run is refused."""
    held = _require_reviewed(settings)
    require_reviewer(held, reviewer, key)
    _require_reason(reason)
    _require_open(settings, manifest)
    name = settings.identity.load().name
    facts = {"run": manifest.run, "reason": reason, "salt": secrets.token_hex(16)}  # the trail has the digest
    sign(settings, held, name, OBJECTION, manifest.digest.hex(), reviewer, key, facts, manifest.run)
    _require_open(settings, manifest)  # charged meanwhile, it goes on: the objection is kept, and stops nothing
    found = standing(settings, manifest)
    against = sorted({each.reviewer for each in found.objections} & held.review.reviewers.keys())
    if len(held.review.reviewers) - len(against) < held.review.approval:
        by, why = people(", ".join(against)) or reviewer, "too few reviewers are left to approve it"
        if _refused(settings, manifest, by, why):
            found = standing(settings, manifest)
    return found


def refuse(settings: Settings, manifest: Manifest, by: str, reason: str) -> Standing:
    """For good, and for this node: nobody can admit the run any more. Others hear that it is refused, and no more."""
    if person(by) is None or not by.strip():
        raise ApprovalError("a refusal needs the name of the person who answers for it, on one line of 80 characters")
    _require_reason(reason)
    if not _refused(settings, manifest, by, reason):
        raise ApprovalError(
            f'run {manifest.run} was admitted here: `parley party withdraw NODE {manifest.run} --by "YOUR NAME"`'
        )
    return standing(settings, manifest)


def _reviewed(settings: Settings) -> InForce | None:
    """The policy in force, which may just have been put in force as the first one."""
    require_newest(settings)
    try:
        policy_of(settings)
    except PolicyError:
        if (held := in_force(settings)) is not None:
            return held
        return None
    return in_force(settings)


def _require_reviewed(settings: Settings) -> InForce:
    held = _reviewed(settings)
    if held is None:
        raise ApprovalError("no policy with [review] is in force here: leave out --reviewer, and give --by")
    return held


def _require_read(settings: Settings, manifest: Manifest, digest: str) -> None:
    if digest.strip().lower() != manifest.digest.hex():
        raise ApprovalError("the digest is not this manifest's: read the manifest, and give the digest it shows")
    if pending := EvidenceFolder(settings.state).against(manifest):
        raise ApprovalError(waits_for_answer(pending))
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if refused_here(settings, manifest):
        raise ApprovalError(f"run {manifest.run} was refused here for good: ask for a new one under another name")


def _require_reason(reason: str) -> None:
    if not reason.strip() or sentence(reason) is None:
        raise ApprovalError("a reason is one line of 1 to 300 characters; it stays on this machine")


def _require_open(settings: Settings, manifest: Manifest) -> None:
    """Of a run that has begun there is nothing to sign or to object to."""
    if settings.ledger.exists():
        with closing(open_ledger(settings)) as ledger:
            begun = manifest.run in ledger.runs
        if begun:
            raise ApprovalError(
                f'run {manifest.run} has begun: `parley party withdraw NODE {manifest.run} --by "YOUR NAME"` leaves it'
            )


def _meaning(settings: Settings, manifest: Manifest, say: Say) -> Meaning:
    """What it costs, computed here; a ManifestError where it is not about this party's records."""
    say("computing what the run costs, and the law of its noise")
    with closing(open_ledger(settings)) as ledger:
        policy = ledger.policy
    name = settings.identity.load().name
    data = data_set_of(settings, manifest, name)
    require_equal(read_holding(data.schema), manifest, understand(manifest), name)
    return verify_apart_with_charge(manifest, name.name, policy, settings.verified)[0]


def _final(settings: Settings, manifest: Manifest, policy: Policy, meaning: Meaning) -> list[str]:
    """Reasons that not even all reviewers may wave through: nobody need sign then."""
    spent, lying = _spent(settings, manifest)
    found = reasons_against(meaning, settings.identity.load().name, policy, spent, lying)
    return [str(each) for each in found if each.final]


def _admitted(
    settings: Settings, manifest: Manifest, digest: str, by: str, policy: Policy | None, meaning: Meaning,
    shown: tuple[str, ...] | None = None,
) -> Approved:  # fmt: skip
    name = settings.identity.load().name
    spent, lying = _spent(settings, manifest)
    facts = {"run": manifest.run, "manifest": manifest.digest.hex(), "approved_by": by}
    with closing(AdmissionRecord(settings.admissions)) as record, Trail.open(settings.trail, name) as trail:
        decision = approve_by_hand(
            record, meaning, name, policy, spent, digest, by, lying, shown,
            lambda: trail.append("run.approved", durable=True, **facts),
        )  # fmt: skip
    if isinstance(decision, Refusal):
        return Approved(meaning, False, [str(reason) for reason in decision.reasons])
    return Approved(meaning, True, list(decision.overridden))


def _spent(settings: Settings, manifest: Manifest) -> tuple[float, float | None]:
    """Before this run, by these records."""
    data = data_set_of(settings, manifest, settings.identity.load().name)
    with closing(open_ledger(settings)) as ledger:
        return epsilon_spent(ledger, data.population), spent_if_a_server_lies(ledger, data.population)


def _refused(settings: Settings, manifest: Manifest, by: str, reason: str) -> bool:
    """See to it that nothing admits it; false where something did before. The trail has it first."""
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, first = manifest.digest.hex(), not refused_here(settings, manifest)
    facts = {"run": manifest.run, "manifest": digest, "approved_by": by}
    with (
        closing(AdmissionRecord(settings.admissions)) as record,
        Trail.open(settings.trail, settings.identity.load().name) as trail,
    ):

        def tell() -> None:
            if first:  # the first word stays
                trail.append("review.refused", durable=True, **facts)

        if not record.never(manifest.digest, tell):
            return False
    if first:
        with closing(ReviewStore(settings.review)) as store:
            store.refuse(digest, manifest.run, by, reason)
    return True
