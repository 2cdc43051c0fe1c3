"""Sessions under audit: shares that are equal on both sides, cheats that are caught, and nothing out of quarantine
before its verdict."""

from fractions import Fraction

import numpy as np
import pytest

from parley.mpc.covert import CovertSession
from parley.mpc.errors import CaughtError, PeerError
from parley.mpc.evidence import Evidence, judge
from tests.support.covert import LIARS, public, run, verify

ALWAYS, HALF, EIGHTH = Fraction(1), Fraction(1, 2), Fraction(1, 8)


def test_both_make_the_same_batches_and_their_sums_are_standard_normal() -> None:
    a, b = run(24, Fraction(1, 4), lanes=512)
    assert a.error is b.error is None
    sizes = [(len(x), len(y)) for x, y in zip(a.batches, b.batches, strict=True)]
    assert all(x == y for x, y in sizes)
    x = np.concatenate([(p + q).view(np.int64) for p, q in zip(a.batches, b.batches, strict=True)]) / 2.0**41
    if len(x) > 1000:  # all but every batch audited: 1 in 10^7
        assert abs(x.mean()) * len(x) ** 0.5 < 6
        assert abs(x.std() - 1) * (2 * len(x)) ** 0.5 < 6
    for end in (a, b):
        assert end.session is not None
        assert end.session.audits_passed == end.session.audits_made
        assert end.evidence == []


def test_where_everything_is_audited_nothing_is_made_and_nobody_accused() -> None:
    a, b = run(6, ALWAYS)
    for end in (a, b):
        assert end.error is None
        assert end.session is not None
        assert end.session.audits_made == end.session.audits_passed == 6
        assert [len(batch) for batch in end.batches] == [0] * 6


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("name", LIARS)
def test_an_audited_lie_is_proved(name: str, role: int) -> None:
    classes = [CovertSession, CovertSession]
    classes[role] = LIARS[name]()
    ends = run(3, ALWAYS, classes=(classes[0], classes[1]))
    honest, liar = ends[1 - role], ends[role]
    if name == "collapse" and role == 0:
        pytest.skip("server 1 sends the upper half")
    assert isinstance(honest.error, CaughtError), honest.error
    evidence = honest.evidence[0]  # of the next batch there may be some too
    assert honest.error.evidence == evidence
    assert Evidence.decode(evidence.encoded()) == evidence
    verdict = judge(evidence, verify)
    assert verdict.guilty
    assert verdict.key == public(role)
    assert liar.evidence == []  # it could accuse nobody
    assert isinstance(liar.error, PeerError)
