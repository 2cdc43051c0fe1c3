"""What a manifest claims is computed, not believed."""

from dataclasses import replace

import pytest
from parley.federation.errors import ManifestError
from parley.federation.meaning import verify, verify_apart

from mpc.law import certify
from privacy.accountants import accountant, worst_party
from tests.federation.documents import manifest


def test_the_meaning_is_the_accountants_and_the_laws() -> None:
    made = manifest()
    found = verify(made)
    _, reading = worst_party(accountant("pld"), made.mechanism, made.guarantee.delta)
    certificate = certify(3 * 40, 2.0, 1e-5)
    assert found.epsilon == pytest.approx(reading.epsilon + certificate.epsilon_added, rel=1e-3)
    assert found.epsilon <= 2.0
    assert 0 < found.epsilon_added < 0.01 * found.epsilon
    # 30 records of norm 1 and noise of deviation 2.4, against half of 2^54: noise alone is 16 deviations.
    assert 16 < found.range_margin_bits < 38
    text = "\n".join(found.sentences)
    for words in (
        "Parties: 3",
        "40 rounds",
        "at delta 1e-05",
        "Unit of privacy: row",
        "replace-one",
        "standard",
        "double",
    ):
        assert words in text


def test_a_claim_below_the_cost_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"^privacy\.epsilon: claims 1 and the run costs .*: claim at least"):
        verify(manifest(**{"privacy.epsilon": 1.0}))


def test_noise_that_is_not_precise_enough_is_refused_by_name() -> None:
    with pytest.raises(ManifestError, match=r"^noise\.precision: .*high"):
        verify(manifest(**{"model.dimension": 1 << 27}))


def test_an_object_made_past_the_parser_is_parsed_again() -> None:
    with pytest.raises(ManifestError, match="deadline_seconds"):
        verify(replace(manifest(), deadline_seconds=-1.0))


def test_a_process_apart_finds_the_same_and_refuses_the_same() -> None:
    assert verify_apart(manifest()) == verify(manifest())
    with pytest.raises(ManifestError) as caught:
        verify_apart(manifest(**{"privacy.epsilon": 1.0}))
    assert caught.value.field == "privacy.epsilon"
