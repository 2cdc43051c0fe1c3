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
        for other, key in found.items():
            # One secret makes both points of an x: they are one person's.
            if key.hex()[2:] == digits[2:]:
                raise table.refuse(
                    "reviewers", f"has one key for {other!r} and {name!r}: each needs a key of their own"
                )
        found[name] = bytes.fromhex(digits)
    return found
