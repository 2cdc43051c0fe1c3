"""Three reviewers, their keys, and a policy that demands two of them."""

from collections.abc import Sequence
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec

from parley.node.pins import CURVE
from parley.node.reviewer_key import ReviewerKey
from parley.party.review import Proposal, proposal, sign_policy
from parley.party.settings import Settings
from tests.support.documents import PARTY_POLICY

NAMES = ("ada", "ben", "cy")


@cache
def key(name: str) -> ReviewerKey:
    """Without a file: tests/node/test_reviewer_key.py has files."""
    return ReviewerKey(ec.generate_private_key(CURVE))


def sign_now(settings: Settings, name: str, by: ReviewerKey | None = None) -> Proposal | None:
    """As somebody who has just read what policy.toml says."""
    found = proposal(settings)
    return sign_policy(settings, name, by or key(name), "" if found is None else found.digest)


def reviewed_policy(
    names: Sequence[str] = NAMES, approval: int = 2, larger_cap: int = 3, policy: int = 2, days: int = 14,
    text: str = PARTY_POLICY,
) -> str:  # fmt: skip
    """By default runs of more than two rounds wait for people."""
    strict = text.replace("largest_rounds = 40", "largest_rounds = 2")
    lines = "\n".join(key(name).line(name) for name in names)
    return (
        f"{strict}\n[review]\napproval = {approval}\nlarger_cap = {larger_cap}\npolicy = {policy}\ndays = {days}\n"
        f"[review.reviewers]\n{lines}\n"
    )
