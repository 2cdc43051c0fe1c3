"""[review] in a party's policy.toml: who must sign, and how many of them.

    [review]
    approval = 2          # signatures for a run that the policy does not admit by itself
    larger_cap = 2        # for a change that raises an epsilon or a delta, of policy.toml or of [budget]
    policy = 2            # for any other change of policy.toml
    days = 14             # after which a signature, and an approval that was not used, counts no more

    [review.reviewers]    # `parley reviewer show FILE` prints these lines
    ada-osei = "02:3f1a:…"

What is in force, and who has signed what, is `parley.party.review`'s.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from parley.federation.fields import Fields

MOST_REVIEWERS = 32
LONGEST_DAYS = 366
KEY = re.compile(r"0[23][0-9a-f]{64}")
"""A point of P-256, compressed, as `parley.node.pins` writes and reads one."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """What a policy demands."""

    approval: int
    larger_cap: int
    policy: int
    days: int
    reviewers: Mapping[str, bytes]
    """Name to public key, each key once."""

    @property
    def most(self) -> int:
        """For a change of these numbers or names themselves."""
        return max(self.approval, self.larger_cap, self.policy)


def review_table(fields: Fields) -> Review | None:
    """Of a policy that demands signatures; None where it does not say."""
    if not fields.has("review"):
        return None
    table = fields.table("review")
    reviewers = _reviewers(table)
    found = Review(
        **{name: table.whole(name, 1, len(reviewers)) for name in ("approval", "larger_cap", "policy")},
        days=table.whole("days", 1, LONGEST_DAYS),
        reviewers=reviewers,
    )
    table.finish()
    return found


def _reviewers(table: Fields) -> Mapping[str, bytes]:
    given = table.text_by_label("reviewers")
    if not 1 <= len(given) <= MOST_REVIEWERS:
        raise table.refuse("reviewers", f"are {len(given)}: name 1 to {MOST_REVIEWERS}")
    found: dict[str, bytes] = {}
    for name, text in given.items():
        digits = text.replace(":", "").replace(" ", "").lower()
        if KEY.fullmatch(digits) is None:
            raise table.refuse("reviewers", f"has no key of {name!r}: paste what `parley reviewer show FILE` prints")
        if not _on_the_curve(bytes.fromhex(digits)):
            raise table.refuse("reviewers", f"has a key of {name!r} that nobody can sign with: ask for it once more")
        for other, key in found.items():
            # One secret makes both points of an x: they are one person's.
            if key.hex()[2:] == digits[2:]:
                raise table.refuse(
                    "reviewers", f"has one key for {other!r} and {name!r}: each needs a key of their own"
                )
        found[name] = bytes.fromhex(digits)
    return found


def _on_the_curve(key: bytes) -> bool:
    """Half of all numbers are no point: with such a key there is one reviewer fewer than the policy says."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    except ValueError:
        return False
    return True
