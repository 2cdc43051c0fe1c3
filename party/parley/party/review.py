"""Two signatures: the policy in force, who has signed what, and whether that is enough.

Where a policy has [review], the node goes by the policy IN FORCE and not by policy.toml, which is a proposal until as
many reviewers of the policy in force have signed it as that demands. The first one is trusted when it is first seen,
and noted. Each has a number, in the store and in the trail: an older one that is put back is a proposal like any other,
and a store that is older than the trail is refused. [budget] of node.toml goes with it, for it is the larger cap.

A signature says what of, by whom, under which policy, from when until when. It counts while its key is that reviewer's
in the policy in force, under no other policy than the one that it names, and until it runs out.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.names import NodeName
from parley.federation.policy import PartyPolicy, Policy
from parley.federation.policy_file import policy_bytes, policy_from, policy_table
from parley.federation.reviewers import Review
from parley.node.reviewer_key import ReviewerKey, reviewed
from parley.node.trail import Trail, events_in
from parley.party.books import open_ledger
from parley.party.memory import BACK
from parley.party.policy_words import differences, raises_a_cap
from parley.party.review_store import PolicyRow, ReviewStore, Vote, closing_if, now
from parley.party.settings import Settings
from parley.privacy.canonical import canonical_json, digest_of
from parley.privacy.filters import Cap

APPROVAL, OBJECTION, POLICY, POPULATION = "approval", "objection", "policy", "population"
AHEAD = dt.timedelta(minutes=5)
"""How far ahead of this machine's clock a signature may be dated."""
IN_FORCE = "policy.in_force"


@dataclass(frozen=True)
class InForce:
    """What this node goes by."""

    number: int
    digest: str
    at: str
    signed_by: str
    policy: PartyPolicy
    review: Review
    cap: Cap
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Counted:
    """A signature, and whether it counts now."""

    reviewer: str
    at: str
    expires: str
    counts: bool
    why_not: str
    statement: Mapping[str, Any]
    digest: str
    id: int


@dataclass(frozen=True)
class Proposal:
    """policy.toml, or [budget], is not what is in force."""

    digest: str
    lines: tuple[str, ...]
    """What differs, in plain words."""
    needed: int
    larger_cap: bool
    signatures: tuple[Counted, ...]
    problem: str = ""
    """Why nobody can sign it."""

    @property
    def enough(self) -> bool:
        return not self.problem and sum(each.counts for each in self.signatures) >= self.needed


def policy_of(settings: Settings) -> Policy | None:
    """What runs are judged by: the policy in force; where none was ever reviewed, policy.toml as it stands.

    A PolicyError where that is not understood; None where there is none.
    """
    row = _row(settings)  # before the file is read: what another process puts in force meanwhile is not replaced
    if (held := in_force(settings)) is not None:
        return held.policy
    if not settings.policy.exists():
        return None
    data = policy_bytes(settings.policy)
    found = policy_from(data, settings.policy.name)
    if isinstance(found, PartyPolicy) and found.review is not None:
        _put_in_force(settings, data, "", 0 if row is None else row.number)
        held = in_force(settings)
        return None if held is None else held.policy
    return found


def policy_seen(settings: Settings) -> Policy | None:
    """The same for who only looks: nothing is put in force."""
    held = in_force(settings)
    if held is not None:
        return held.policy
    return policy_from(policy_bytes(settings.policy), settings.policy.name) if settings.policy.exists() else None


def cap_of(settings: Settings) -> Cap:
    """What a population is given in all: [budget] as it was reviewed."""
    held = in_force(settings)
    return settings.cap if held is None else held.cap


def in_force(settings: Settings) -> InForce | None:
    """None where no policy with [review] was ever seen."""
    row = _row(settings)
    if row is None:
        return None
    cap, body = Cap(row.epsilon, row.delta), policy_table(row.policy, settings.policy.name)
    policy = policy_from(row.policy, settings.policy.name)
    if digest_of_policy(row.policy, cap, settings.policy.name) != row.digest or not isinstance(policy, PartyPolicy):
        raise ApprovalError(f"{settings.review.name} is not what was written: {BACK}")
    if policy.review is None:  # the reviewers have given it up: the file counts again
        return None
    return InForce(row.number, row.digest, row.at, row.signed_by, policy, policy.review, cap, body)


def require_newest(settings: Settings) -> None:
    """The same as `require_recorded`; and what a crash left out of the trail is noted there now."""
    number, row = require_recorded(settings), _row(settings)
    if row is not None and row.number > number:
        with Trail.open(settings.trail, settings.identity.load().name) as trail:
            _note(trail, row)


def require_recorded(settings: Settings) -> int:
    """The newest policy that the trail tells of; an ApprovalError where the store has it not: it was put back."""
    number, digest = 0, ""
    if _tells(settings.trail):
        for event in events_in(settings.trail):
            if event.event == IN_FORCE:
                number, digest = int(event.fields["sequence"]), str(event.fields["digest"])
    row = _row(settings)
    held = (0, "") if row is None else (row.number, row.digest)
    if held[0] < number or (held[0] == number and held[1] != digest):
        raise ApprovalError(
            f"the trail tells of policy {number} in force, and {settings.review.name} has {held[0] or 'none'}: {BACK}"
        )
    return number


def _tells(trail: Path) -> bool:
    """Whether there is anything to verify it for: a trail may be long, and most never had a policy in force."""
    if not trail.exists():
        return False
    with trail.open("rb") as file:
        return any(f'"event":"{IN_FORCE}"'.encode() in line for line in file)


def digest_of_policy(data: bytes, cap: Cap, name: str) -> str:
    """Of all that is reviewed, as parsed: comments and the order of lines are nobody's business."""
    try:
        return digest_of({"policy": policy_table(data, name), "cap": [cap.epsilon, cap.delta]})
    except (TypeError, ValueError):
        raise PolicyError(name, "has a date, or a number that is none: take it out") from None


def proposal(settings: Settings) -> Proposal | None:
    """What policy.toml and [budget] would change, and who has signed that; None where it is in force."""
    held = in_force(settings)
    return None if held is None else _proposal(settings, held, _written(settings))


def to_sign(settings: Settings, digest: str) -> Proposal:
    """What policy.toml and [budget] say, if they still say what was read: `digest` is of what the reviewer was shown.

    Whoever can write the file may do so between the reading and the signing.
    """
    return _to_sign(settings, _written(settings), digest)[1]


def _to_sign(settings: Settings, data: bytes | str, digest: str) -> tuple[InForce, Proposal]:
    require_newest(settings)
    if policy_of(settings) is None or (held := in_force(settings)) is None:
        raise ApprovalError("no policy with [review] is in force here: whoever writes policy.toml decides")
    found = _proposal(settings, held, data)
    if found is None:
        raise ApprovalError(f"policy.toml says what is in force (number {held.number}): there is nothing to sign")
    if found.problem:
        raise ApprovalError(f"nobody can sign policy.toml as it is: {found.problem}")
    if digest.strip().lower() != found.digest:
        raise ApprovalError(
            "the digest is not of what policy.toml and [budget] say now: read `parley party policy NODE` once more, "
            "and give the digest it shows"
        )
    return held, found


def sign_policy(settings: Settings, reviewer: str, key: ReviewerKey, digest: str) -> Proposal | None:
    """One more signature under the proposal of this digest; None once it is in force."""
    data = _written(settings)
    held, found = _to_sign(settings, data, digest)
    name = settings.identity.load().name
    facts = {"instead_of": held.digest, "larger_cap": found.larger_cap}
    sign(settings, held, name, POLICY, found.digest, reviewer, key, facts)
    assert isinstance(data, bytes)
    signed = _proposal(settings, held, data)
    assert signed is not None
    if not signed.enough:
        return signed
    names = ", ".join(sorted(each.reviewer for each in signed.signatures if each.counts))
    _put_in_force(settings, data, names, held.number)
    return None


def sign(
    settings: Settings,
    held: InForce,
    node: NodeName,
    kind: str,
    subject: str,
    reviewer: str,
    key: ReviewerKey,
    facts: Mapping[str, Any],
    run: str | None = None,
) -> str:
    """Noted in the trail, then kept durably; the digest of the statement. `facts` are signed beside the rest."""
    require_reviewer(held, reviewer, key)
    at = now()
    body = {
        **facts,
        "what": kind,
        "subject": subject,
        "node": node.uri,
        "policy": held.digest,
        "number": held.number,
        "reviewer": reviewer,
        "at": at.isoformat(),
        "expires": (at + dt.timedelta(days=held.review.days)).isoformat(),
    }
    statement = canonical_json(body).encode()
    digest = hashlib.sha256(statement).hexdigest()
    with Trail.open(settings.trail, node) as trail:
        event = "review.objected" if kind == OBJECTION else "review.signed"
        manifest = subject if kind in (APPROVAL, OBJECTION) else None
        fingerprint = hashlib.sha256(key.public).hexdigest()
        trail.append(
            event, durable=True, kind=kind, run=run, manifest=manifest, approved_by=reviewer, digest=digest,
            fingerprint=fingerprint, sequence=held.number,
        )  # fmt: skip
    with closing(ReviewStore(settings.review)) as store:
        store.add_vote(kind, subject, reviewer, key.public, statement, key.sign(kind, statement))
    return digest


def require_reviewer(held: InForce, reviewer: str, key: ReviewerKey) -> None:
    """An ApprovalError unless the policy in force names this key under this name."""
    known = held.review.reviewers
    if reviewer not in known:
        raise ApprovalError(f"{reviewer!r} is no reviewer of the policy in force: it names {', '.join(sorted(known))}")
    if key.public != known[reviewer]:
        raise ApprovalError(f"this is not the key that the policy in force has for {reviewer}: give --key their file")


def counted(settings: Settings, held: InForce, node: NodeName, kind: str, subject: str) -> tuple[Counted, ...]:
    """The newest signature of each reviewer, and whether it counts. What has run out once has run out for good."""
    with closing_if(ReviewStore.existing(settings.review)) as store:
        if store is None:
            return ()
        moment, newest = now(), dict[str, Vote]()
        for vote in store.votes(kind, subject):
            newest[vote.reviewer] = vote
        found = tuple(_judged(vote, held, node, moment) for vote in newest.values())
        over = [each.id for each in found if each.why_not == OVER and not newest[each.reviewer].over]
        if over:
            store.mark_over(over)
        return found


OVER = "has run out"


def _judged(vote: Vote, held: InForce, node: NodeName, moment: dt.datetime) -> Counted:
    body: dict[str, Any] = {}
    try:
        read = json.loads(vote.statement)
        body = read if isinstance(read, dict) else {}
        at, expires = (dt.datetime.fromisoformat(body[name]).astimezone(dt.UTC) for name in ("at", "expires"))
        told = {name: body[name] for name in ("what", "subject", "node", "reviewer")}
        under = (body["policy"], body["number"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return _made(vote, body, "is not what was written")
    due = {"what": vote.kind, "subject": vote.subject, "node": node.uri, "reviewer": vote.reviewer}
    key = held.review.reviewers.get(vote.reviewer)
    if key is None:
        return _made(vote, body, "is of no reviewer any more")
    if told != due or not reviewed(key, vote.kind, vote.statement, vote.signature):
        return _made(vote, body, "is not signed with this reviewer's key")
    if under != (held.digest, held.number):
        return _made(vote, body, "was given under another policy")
    if at > moment + AHEAD:
        return _made(vote, body, "is dated ahead of this machine's clock")
    if vote.over or not moment < expires or expires - at > dt.timedelta(days=held.review.days):
        return _made(vote, body, OVER)
    return _made(vote, body, "")


def _made(vote: Vote, body: Mapping[str, Any], why_not: str) -> Counted:
    at, expires = str(body.get("at", "")), str(body.get("expires", ""))
    digest = hashlib.sha256(vote.statement).hexdigest()
    return Counted(vote.reviewer, at, expires, not why_not, why_not, body, digest, vote.id)


def _written(settings: Settings) -> bytes | str:
    """policy.toml's bytes, or why it cannot be read."""
    try:
        return policy_bytes(settings.policy)
    except PolicyError as error:
        return str(error)


def _proposal(settings: Settings, held: InForce, data: bytes | str) -> Proposal | None:
    name = settings.policy.name
    if isinstance(data, str):
        return Proposal("", (), 0, False, (), data)
    try:
        found, body = policy_from(data, name), policy_table(data, name)
        digest = digest_of_policy(data, settings.cap, name)
    except PolicyError as error:
        return Proposal("", (), 0, False, (), str(error))
    if not isinstance(found, PartyPolicy):
        return Proposal(digest, (), 0, False, (), "it is another role's")
    if digest == held.digest:
        return None
    if settings.cap != held.cap and settings.ledger.exists():
        with closing(open_ledger(settings)) as ledger:
            if any(each.cap != settings.cap for each in ledger.populations.values()):
                why = f"[budget] of node.toml is final: write epsilon {held.cap.epsilon:g} and delta {held.cap.delta:g}"
                return Proposal(digest, (), 0, False, (), why)
    larger = raises_a_cap(held.policy, found, held.cap, settings.cap)
    lines = differences(held.body, body, held.cap, settings.cap)
    needed = max(held.review.policy, held.review.larger_cap if larger else 0)
    needed = held.review.most if found.review != held.review else needed
    signatures = counted(settings, held, settings.identity.load().name, POLICY, digest)
    return Proposal(digest, tuple(lines), needed, larger, signatures)


def _put_in_force(settings: Settings, data: bytes, names: str, after: int) -> None:
    """In the store and in the trail, unless something is in force that came `after`. Without `names`: as the first."""
    require_newest(settings)
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, cap = digest_of_policy(data, settings.cap, settings.policy.name), settings.cap
    row = PolicyRow(after + 1, digest, data, cap.epsilon, cap.delta, now().isoformat(), names)
    with closing(ReviewStore(settings.review)) as store:
        added = store.add_policy(row)
    if added:
        with Trail.open(settings.trail, settings.identity.load().name) as trail:
            _note(trail, row)


def _note(trail: Trail, row: PolicyRow) -> None:
    how = "signed" if row.signed_by else "first"
    trail.append(
        IN_FORCE, durable=True, sequence=row.number, digest=row.digest, how=how, approved_by=people(row.signed_by)
    )


def _row(settings: Settings) -> PolicyRow | None:
    with closing_if(ReviewStore.existing(settings.review)) as store:
        return None if store is None else store.policy()


def people(names: str) -> str | None:
    """As the trail takes it: one line, not too long."""
    if len(names) <= 80:
        return names or None
    return f"{names.count(',') + 1} reviewers"
