"""Who answers for the pins and the policy of a party that was restored from a backup.

They are those of the day of the backup: a key that was given up since, or a limit that was lowered, is back. One
person's word is enough where that day's policy has no [review]. Where it has, as many of its reviewers sign as it
demands for its largest change, or whoever has an old backup would undo alone what several have signed. What they sign
is of exactly the policy, [budget] and pins that are there, and of this restoring: it counts for no other one, and no
more after a change.
"""

import hashlib
from dataclasses import dataclass

from parley.federation.errors import ApprovalError
from parley.node import restoration
from parley.node.backup_key import BackupError
from parley.node.node_file import PartyNode
from parley.node.restoration import Mark
from parley.node.reviewer_key import ReviewerKey
from parley.node.trail import Trail
from parley.party.process import settings_of
from parley.party.review import (
    Counted,
    InForce,
    counted,
    in_force,
    people,
    policy_of,
    require_newest,
    require_reviewer,
    sign,
)
from parley.party.settings import Settings
from parley.privacy.canonical import digest_of

RESTORED = "restored"


@dataclass(frozen=True)
class Confirmation:
    """Where a restored folder stands with its people."""

    digest: str
    """Of what is signed; "" where nobody has to sign."""
    needed: int
    signatures: tuple[Counted, ...] = ()

    @property
    def enough(self) -> bool:
        return sum(each.counts for each in self.signatures) >= self.needed


def confirmation(node: PartyNode) -> Confirmation:
    """What is to be signed, and who has."""
    settings, mark = settings_of(node), _mark(node)
    held = _held(settings)
    if held is None:
        return Confirmation("", 0)
    return _standing(node, settings, mark, held)


def sign_restored(node: PartyNode, reviewer: str, key: ReviewerKey, digest: str) -> Confirmation:
    """One more signature under what has this digest; with enough of them the folder is confirmed."""
    settings, mark = settings_of(node), _mark(node)
    held = _held(settings)
    if held is None:
        raise ApprovalError("the restored policy has no [review]: `parley restore --confirm NODE --by NAME`")
    require_reviewer(held, reviewer, key)
    before = _standing(node, settings, mark, held)
    if digest.strip().lower() != before.digest:
        raise ApprovalError(
            "the digest is not of the pins and the policy that are here now: read `parley restore --confirm NODE` once "
            "more, and give the digest it shows"
        )
    name = settings.identity.load().name
    sign(settings, held, name, RESTORED, before.digest, reviewer, key, {"made": mark.made, "restored": mark.at})
    after = _standing(node, settings, mark, held)
    if after.enough:
        _confirm(node, settings, ", ".join(sorted(each.reviewer for each in after.signatures if each.counts)))
    return after


def confirm(node: PartyNode, by: str) -> Mark:
    """By one person's word, where that is enough."""
    settings, _ = settings_of(node), _mark(node)
    if (held := _held(settings)) is not None:
        raise BackupError(
            f"the restored policy has [review]: {held.review.most} of its reviewers have to sign, each with `parley "
            f"restore --confirm {node.folder} --reviewer NAME --key FILE --digest DIGEST`"
        )
    return _confirm(node, settings, by)


def _mark(node: PartyNode) -> Mark:
    mark = restoration.mark_of(node)
    if mark is None:
        raise BackupError(f"{node.folder} was not restored from a backup: there is nothing to confirm")
    return mark


def _held(settings: Settings) -> InForce | None:
    require_newest(settings)
    policy_of(settings)  # the first one with [review] is in force from now on
    return in_force(settings)


def _standing(node: PartyNode, settings: Settings, mark: Mark, held: InForce) -> Confirmation:
    pins = hashlib.sha256(node.identity.pin_file.read_bytes()).hexdigest() if node.identity.pin_file.exists() else ""
    digest = digest_of({"made": mark.made, "restored": mark.at, "policy": held.digest, "pins": pins})
    name = settings.identity.load().name
    return Confirmation(digest, held.review.most, counted(settings, held, name, RESTORED, digest))


def _confirm(node: PartyNode, settings: Settings, by: str) -> Mark:
    found = restoration.confirm(node, by)
    with Trail.open(settings.trail, settings.identity.load().name) as trail:
        trail.append("node.confirmed", durable=True, approved_by=people(by))
    return found
