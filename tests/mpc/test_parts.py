"""What the noise is made of: the figures that claims, lattices and coordinators go by."""

import itertools
import math
from fractions import Fraction

import pytest

from parley.mpc.errors import ConfigurationError, RangeError
from parley.mpc.parts import JOINT, OWN, USUAL, NoiseParts, parts_of, usual_own
from parley.mpc.ring import LARGEST_NOISE, Lattice

MALICIOUS = NoiseParts("malicious", 1.0)
COVERT = [parts_of("covert", own) for own in OWN if own > 0]
EVERY = [*(NoiseParts("semi-honest", own) for own in OWN), *COVERT, MALICIOUS]


def test_what_is_counted_released_and_left() -> None:
    assert [(p.counted, p.released, p.samples) for p in EVERY] == [
        (1, 1, 1), (1.0625, 1.125, 2), (1.25, 1.5, 2), (2, 3, 2),
        (1.0625, 1.125, 2), (1.25, 1.5, 2), (2, 3, 2), (1, 2, 1),
    ]  # fmt: skip
    assert [p.left_by_a_liar**2 for p in EVERY] == pytest.approx([0, 1 / 17, 0.2, 0.5, 1 / 17, 0.2, 0.5, 1])
    assert MALICIOUS.left_by_a_liar == 1
    assert not MALICIOUS.joint
    assert (USUAL, usual_own("semi-honest"), usual_own("malicious")) == (parts_of("semi-honest", 0.5), 0.5, 1.0)
    assert usual_own("covert") == 0.5


def test_an_audit_changes_no_figure_and_says_what_it_promises_with_its_own_rate() -> None:
    assert parts_of("covert", 0.5) == NoiseParts("covert", 0.5, "1/8")
    for audit, unseen in (("1/16", "15/16"), ("1/8", "7/8"), ("1/4", "3/4"), ("1/2", "1/2"), ("1", "0")):
        parts, followed = parts_of("covert", 0.5, audit), NoiseParts("semi-honest", 0.5)
        assert parts.joint
        assert parts.audit_rate == Fraction(audit)
        assert [getattr(parts, name) for name in ("counted", "released", "samples", "left_by_a_liar", "shift")] == [
            getattr(followed, name) for name in ("counted", "released", "samples", "left_by_a_liar", "shift")
        ]
        assert parts.audits == (
            "The aggregators audit each other in secret, which protects no single round: "
            f"k spoiled batches, over all runs together, stay unseen with probability at most ({unseen})^k; one "
            "spoiled batch bares every round that draws on it, down to the own noise."
        )
        assert parts.with_more_of_its_own == [NoiseParts("covert", own, audit) for own in (0.25, 0.5, 1.0)]
    assert USUAL.audit_rate == 0
    assert USUAL.audits == ""
    assert MALICIOUS.with_more_of_its_own == [MALICIOUS]


@pytest.mark.parametrize(
    ("security", "own", "audit", "says"),
    [
        ("rational", 0.5, None, "knows semi-honest, covert or malicious, upgrade"), ("", 0.5, None, "upgrade"),
        ("semi-honest", 0.3, None, "0.25"), ("semi-honest", -0.5, None, "0.25"), ("covert", 0.3, None, "0.25"),
        ("semi-honest", math.nan, None, "0.25"), ("malicious", 0.5, None, "make own 1"),
        ("malicious", 0.0, None, "make own 1"), ("covert", 0.0, "1/8", "use 0.25, 0.5 or 1"),
        ("covert", 0.5, "1/3", "use 1/16, 1/8"), ("covert", 0.5, "0.125", "use 1/16"), ("covert", 0.5, "", "use 1/16"),
        ("semi-honest", 0.5, "1/8", "leave audit out"), ("malicious", 1.0, "1/8", "leave audit out"),
    ],
)  # fmt: skip
def test_what_this_version_does_not_know_or_contradicts_itself_is_refused(
    security: str, own: float, audit: str | None, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parts_of(security, own, audit)


@pytest.mark.parametrize("parts", EVERY)
def test_the_unit_never_falls_short_of_what_is_claimed(parts: NoiseParts) -> None:
    """All that is counted, exactly: variance counted · unit² against sigma², and no more than rounding above."""
    for numerator, denominator in itertools.product((1, 3, 7, 1e-9, 12345.678), (1, 3, 11, 1e7)):
        lattice = Lattice(numerator / denominator, 16, 41, parts)
        counted = Fraction(parts.counted) * Fraction(lattice.unit) ** 2
        assert counted >= Fraction(lattice.sigma) ** 2
        assert counted <= Fraction(lattice.sigma) ** 2 * (1 + Fraction(1, 1 << 49))


@pytest.mark.parametrize("parts", EVERY)
def test_the_range_has_room_for_every_part(parts: NoiseParts) -> None:
    lattice = Lattice(1.0, 16, 41, parts)
    sample = LARGEST_NOISE << 16
    least = sample * parts.joint + (0 if parts.shift is None else 2 * (sample >> parts.shift))
    assert least <= lattice.largest_noise <= least + 2
    # Contributions that leave exactly room for joint noise, and none for the servers' own.
    limit = (1 << (lattice.opening_bits - 1)) - 1 - (LARGEST_NOISE << 16)
    one_record = limit * lattice.step
    if lattice.largest_noise <= sample:
        lattice.check_range(1, one_record * (1 - 2.0**-40))
    else:
        with pytest.raises(RangeError):
            lattice.check_range(1, one_record)


def test_without_own_parts_nothing_has_changed() -> None:
    assert Lattice(0.1, 16).unit == 0.1
    assert Lattice(0.1, 16).parts == JOINT
    assert Lattice(0.1, 16).largest_noise == LARGEST_NOISE << 16
