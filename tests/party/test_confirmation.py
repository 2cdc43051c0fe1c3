"""A restored party's pins and policy: where several have to sign, no one person brings last month's back."""

import json
from pathlib import Path

import pytest

from parley.federation.errors import ApprovalError
from parley.node.backup import RESTORED
from parley.node.backup_key import BackupError
from parley.node.node_file import PartyNode
from parley.node.restoration import require_confirmed
from parley.party.confirmation import confirm, confirmation, sign_restored
from parley.party.process import party_node, settings_of
from parley.party.review import policy_of
from parley.privacy.durable import replace_durably
from tests.support.documents import PARTY_POLICY
from tests.support.reviewers import NAMES, key, reviewed_policy

FIRST, SECOND, _ = NAMES


def restored(party: Path, policy: str, at: int = 1_700_000_001) -> PartyNode:
    """A folder as `parley restore` leaves it."""
    node = party_node(party)
    settings = settings_of(node)
    settings.policy.write_text(policy)
    policy_of(settings)
    put_back(node, at)
    return node


def put_back(node: PartyNode, at: int) -> None:
    mark = {"made": 1_700_000_000, "at": at, "confirmed_by": ""}
    replace_durably(node.state / RESTORED, json.dumps(mark) + "\n")


def trail(node: PartyNode) -> list[str]:
    return [json.loads(line)["event"] for line in node.trail.read_text().splitlines()]


def test_without_reviewers_one_persons_word_is_enough(party: Path) -> None:
    node = restored(party, PARTY_POLICY)
    assert confirmation(node).needed == 0
    with pytest.raises(ApprovalError, match="--by NAME"):
        sign_restored(node, FIRST, key(FIRST), "")
    assert confirm(node, "Dr. Ada Osei").confirmed_by == "Dr. Ada Osei"
    require_confirmed(node)
    assert trail(node)[-1] == "node.confirmed"


def test_with_reviewers_as_many_have_to_sign_as_for_the_largest_change(party: Path) -> None:
    node = restored(party, reviewed_policy(approval=1, policy=1, larger_cap=2))
    with pytest.raises(BackupError, match="2 of its reviewers"):
        confirm(node, "Dr. Ada Osei")
    asked = confirmation(node)
    assert (asked.needed, asked.signatures) == (2, ())
    once = sign_restored(node, FIRST, key(FIRST), asked.digest)
    again = sign_restored(node, FIRST, key(FIRST), asked.digest)  # one person twice
    assert not once.enough
    assert not again.enough
    with pytest.raises(BackupError, match="this node was restored"):
        require_confirmed(node)
    assert sign_restored(node, SECOND, key(SECOND), asked.digest).enough
    require_confirmed(node)
    assert trail(node)[-2:] == ["review.signed", "node.confirmed"]


def test_signatures_are_of_these_pins_this_policy_and_this_restoring(party: Path) -> None:
    node = restored(party, reviewed_policy())
    asked = confirmation(node)
    sign_restored(node, FIRST, key(FIRST), asked.digest)
    with node.identity.pin_file.open("a") as file:
        file.write("\n")
    with pytest.raises(ApprovalError, match="once more"):
        sign_restored(node, SECOND, key(SECOND), asked.digest)
    changed = confirmation(node)
    assert changed.digest != asked.digest
    assert not sign_restored(node, SECOND, key(SECOND), changed.digest).enough
    put_back(node, 1_700_000_002)
    assert confirmation(node).signatures == ()


def test_a_stranger_s_key_and_a_wrong_name_sign_nothing(party: Path) -> None:
    node = restored(party, reviewed_policy())
    digest = confirmation(node).digest
    for name, whose in ((FIRST, SECOND), ("nobody", FIRST)):
        with pytest.raises(ApprovalError):
            sign_restored(node, name, key(whose), digest)
    assert confirmation(node).signatures == ()


def test_a_folder_that_was_not_restored_has_nothing_to_confirm(party: Path) -> None:
    node = party_node(party)
    for act in (confirmation, lambda found: confirm(found, "Dr. Ada Osei")):
        with pytest.raises(BackupError, match="nothing to confirm"):
            act(node)
