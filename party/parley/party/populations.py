"""That nobody is in two populations: somebody answers for it, or as many reviewers as a larger cap takes.

A person in two populations has two budgets, so where the policy in force has [review] it is theirs to say.
"""

from contextlib import closing

from parley.federation.errors import ApprovalError
from parley.node.reviewer_key import ReviewerKey
from parley.node.trail import Trail
from parley.party.books import open_ledger
from parley.party.review import POPULATION, counted, in_force, people, policy_of, require_newest, sign
from parley.party.settings import Settings


def declare_apart(
    settings: Settings, population: str, by: str | None, reviewer: str | None = None, key: ReviewerKey | None = None
) -> int:
    """In the trail and in the ledger, for good; how many more signatures are due before that."""
    require_newest(settings)
    if settings.policy.exists():
        policy_of(settings)  # the first one with [review] is in force from now on
    held, name = in_force(settings), settings.identity.load().name
    if held is not None:
        if reviewer is None or key is None:
            raise ApprovalError(
                f"a budget of its own takes {held.review.larger_cap} signatures of reviewers: give --reviewer and --key"
            )
        sign(settings, held, name, POPULATION, population, reviewer, key, {})
        votes = [each for each in counted(settings, held, name, POPULATION, population) if each.counts]
        if len(votes) < held.review.larger_cap:
            return held.review.larger_cap - len(votes)
        by = people(", ".join(sorted(each.reviewer for each in votes)))
    elif reviewer is not None:
        raise ApprovalError("no policy with [review] is in force here: leave out --reviewer, and give --by")
    if by is None:
        raise ApprovalError("--apart needs --by: who answers for it that no person is in two populations")
    with Trail.open(settings.trail, name) as trail:
        trail.append("population.apart", durable=True, population=population, approved_by=by)
    with closing(open_ledger(settings)) as ledger:
        ledger.declare_apart(population, by)
    return 0
