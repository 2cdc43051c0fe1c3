"""[review] of a policy: who must sign, each with a key of their own."""

from pathlib import Path

import pytest

from parley.federation.errors import PolicyError
from parley.federation.policy import PartyPolicy
from parley.federation.policy_file import read_policy
from parley.federation.reviewers import MOST_REVIEWERS
from tests.support.documents import AGGREGATOR_POLICY
from tests.support.reviewers import NAMES, key, reviewed_policy


def read(tmp_path: Path, text: str) -> PartyPolicy:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    found = read_policy(path)
    assert isinstance(found, PartyPolicy)
    return found


def test_a_party_names_its_reviewers_and_how_many_must_sign(tmp_path: Path) -> None:
    review = read(tmp_path, reviewed_policy()).review
    assert review is not None
    assert (review.approval, review.larger_cap, review.policy, review.days, review.most) == (2, 3, 2, 14, 3)
    assert review.reviewers == {name: key(name).public for name in NAMES}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("approval = 2\n", ""), "review.approval: is missing"),
        (("approval = 2", "approval = 0"), "review.approval: is 0"),
        (("approval = 2", "approval = 4"), "from 1 to 3"),
        (("days = 14", "days = 1000"), "review.days"),
        (("days = 14", "days = 14\nmore = 1"), "review.more: is unknown"),
        (("cy =", "Cy ="), "has the name 'Cy'"),
        (('ada = "0', 'ada = "1'), "has no key of 'ada'"),
    ],
)
def test_half_of_a_review_is_none(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    text = reviewed_policy()
    assert change[0] in text
    with pytest.raises(PolicyError, match=why):
        read(tmp_path, text.replace(*change))


def test_one_key_is_one_reviewer_however_it_is_spelled(tmp_path: Path) -> None:
    digits = key("ada").public.hex()
    twin = ("02" if digits.startswith("03") else "03") + digits[2:]  # the same secret, negated
    for spelled in (digits.upper(), twin, digits[:2] + ":" + digits[2:]):
        text = reviewed_policy().replace(key("ben").line("ben"), f'ben = "{spelled}"')
        with pytest.raises(PolicyError, match="one key for 'ada' and 'ben'"):
            read(tmp_path, text)


def test_a_key_that_is_no_point_is_nobodys(tmp_path: Path) -> None:
    """Nobody could ever sign with it, and the policy would count on it."""
    text = reviewed_policy().replace(key("cy").line("cy"), f'cy = "02{4:064x}"')
    with pytest.raises(PolicyError, match="a key of 'cy' that nobody can sign with"):
        read(tmp_path, text)


def test_more_reviewers_than_anybody_has_are_refused(tmp_path: Path) -> None:
    lines = "\n".join(f'r{n} = "02{n:064x}"' for n in range(MOST_REVIEWERS + 1))
    text = reviewed_policy().partition("[review.reviewers]")[0] + f"[review.reviewers]\n{lines}\n"
    with pytest.raises(PolicyError, match="are 33"):
        read(tmp_path, text)


def test_other_roles_have_none(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(AGGREGATOR_POLICY + "\n[review]\napproval = 1\n")
    with pytest.raises(PolicyError, match="review: is unknown"):
        read_policy(path)
