"""What a manifest claims is computed, not believed."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from parley.federation import meaning
from parley.federation.errors import ManifestError
from parley.federation.meaning import answered, charged, keep, kept_file, verify, verify_apart, verify_apart_with_charge

from mpc.law import certify
from privacy.accountants import accountant, worst_party
from privacy.filters import Policy
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


def test_what_was_verified_is_not_computed_again_and_half_a_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, kept = manifest(), tmp_path / "verified"
    asked = charged("hospital-a", Policy())
    keep(kept, made, asked, answered(made, asked))
    path = kept_file(kept, made, asked)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert list(kept.iterdir()) == [path]
    calls: list[list[str]] = []

    def computed(_: object, arguments: list[str]) -> dict[str, object]:
        calls.append(arguments)
        return answered(made, arguments)

    monkeypatch.setattr(meaning, "_computed", computed)
    found = verify_apart_with_charge(made, "hospital-a", Policy(), kept)
    assert found[0] == verify(made)
    assert not calls
    path.write_bytes(path.read_bytes()[:100])
    assert verify_apart_with_charge(made, "hospital-a", Policy(), kept) == found
    assert calls == [asked]
    for _ in range(2):
        assert verify_apart(made, kept) == found[0]
    assert calls == [asked, []]
    other = manifest(run="heart-2")
    assert not kept_file(kept, other, []).exists()
