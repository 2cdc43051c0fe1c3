"""What a manifest claims is computed, not believed."""

import io
import json
import stat
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parley.federation import meaning
from parley.federation.errors import ManifestError
from parley.federation.meaning import (
    answered,
    charged,
    keep,
    kept_file,
    verify,
    verify_apart,
    verify_apart_with_charge,
    verify_with_charge,
)
from parley.mpc.law import certify
from parley.privacy.accountants import accountant, worst_party
from parley.privacy.filters import Policy
from tests.support.documents import manifest
from tests.support.parsed import counted


def test_the_meaning_is_the_accountants_and_the_laws() -> None:
    made = manifest()
    found = verify(made)
    _, reading = worst_party(accountant("pld"), made.mechanism, made.guarantee.delta)
    certificate = certify(2 * 64 * 40, 2.0, 1e-5)  # joint and the other server's own, for answers of up to 64 numbers
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
        "no overflow from answers that follow the protocol",
    ):
        assert words in text


def test_a_claim_below_the_cost_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"^privacy\.epsilon: claims 1 and the run costs .*: claim at least"):
        verify(manifest(**{"privacy.epsilon": 1.0}))


def test_what_a_lying_server_costs_is_computed_and_a_claim_below_it_refused() -> None:
    loud: dict[str, Any] = {"mechanism.noise_multiplier": 6.0, "privacy.epsilon": 0.5}
    found = verify(manifest(**loud))
    alone = manifest(**loud).mechanism.event(found.worst_party).with_noise(6.0 * 0.5 / 1.25**0.5)
    exact = accountant("pld").epsilon(alone, 1e-5).epsilon
    assert found.epsilon_if_a_server_lies is not None
    assert exact < found.epsilon_if_a_server_lies < 1.02 * exact
    claimed = "privacy.epsilon_if_a_server_lies"
    assert verify(manifest(**loud, **{claimed: 1.1 * exact})).epsilon_if_a_server_lies == found.epsilon_if_a_server_lies
    with pytest.raises(ManifestError, match=r"^privacy\.epsilon_if_a_server_lies: claims .* could cost hospital-a"):
        verify(manifest(**loud, **{claimed: 0.9 * exact}))
    with pytest.raises(ManifestError, match="no guarantee if a server lies"):
        verify(manifest(**loud, **{claimed: 50.0, "noise.own": 0.0}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "no guarantee if a server lies"),  # noise of 1.2 times the sensitivity: more than 10
        ({"noise.own": 0.0}, "no guarantee if a server lies"),
        ({"mechanism.noise_multiplier": 6.0}, "if a server lies, whatever it does"),
        ({"noise.own": 1.0, "noise.security": "malicious"}, "against one aggregator that does anything at all"),
    ],
)
def test_who_approves_reads_what_holds_against_whom(changes: dict[str, Any], says: str) -> None:
    made = manifest(**changes)
    found = verify(made)
    (line,) = [line for line in found.sentences if line.startswith("Against whom: ")]
    assert says in line
    if "malicious" in changes.values():
        assert found.epsilon_if_a_server_lies == found.epsilon
        assert made.samples == 64 * 40
        assert made.joint_samples == 0


@pytest.mark.parametrize("changes", [{}, {"mechanism.noise_multiplier": 6.0}])
def test_audits_change_no_figure_and_say_what_they_are_worth_beside_what_holds_if_a_server_lies(
    changes: dict[str, Any],
) -> None:
    followed = verify(manifest(**changes))
    for audit, unseen in (("1/8", "7/8"), ("1/4", "3/4")):
        found = verify(manifest(**changes, **{"noise.security": "covert", "noise.audit": audit}))
        figures = ("epsilon", "epsilon_if_a_server_lies", "delta", "epsilon_added", "delta_added", "range_margin_bits")
        assert [getattr(found, name) for name in figures] == [getattr(followed, name) for name in figures]
        worth = (
            "The aggregators audit each other in secret, which protects no single round: k spoiled batches, over all "
            f"runs together, stay unseen with probability at most ({unseen})^k; one spoiled batch bares every round "
            "that draws on it, down to the own noise."
        )
        assert found.statement == f"{followed.statement} {worth}"
        (line,) = [line for line in found.sentences if line.startswith("Against whom: ")]
        assert line in [f"{each} {worth}" for each in followed.sentences]
        assert f"0.5 times as much of its own, and audits {audit} of the batches" in "".join(found.sentences)


def test_a_partys_charge_carries_its_own_figure() -> None:
    made = manifest(**{"mechanism.noise_multiplier": 6.0})
    found, charge = verify_with_charge(made, "hospital-a", Policy())
    assert charge.cost.epsilon_if_a_server_lies == found.epsilon_if_a_server_lies
    assert charge.cost.delta_if_a_server_lies == 1e-5
    assert verify_apart_with_charge(made, "hospital-a", Policy()) == (found, charge)


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


def test_the_process_apart_parses_its_manifest_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = manifest(run="parsed-once")
    parsed = counted(monkeypatch)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(made.canonical)))
    monkeypatch.setattr(sys, "argv", ["meaning", *charged("hospital-a", Policy())])
    meaning.main()
    assert parsed == [made.canonical]
    assert set(json.loads(capsys.readouterr().out)) == {"meaning", "charge"}


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


def test_a_coordinators_ledger_counts_the_largest_cost_of_a_lie_of_any_party() -> None:
    """Which need not be the one whose epsilon is largest: sampling amplifies less where there is less noise."""
    samplers = [(300, 10, 300), (200, 40, 40), (100, 5, 5)]
    made = manifest(**{
        "privacy.epsilon": 4.0,
        "mechanism.noise_multiplier": 4.0,
        "mechanism.steps": 10,
        "noise.own": 0.25,
        **{f"parties.{n}.sampler": {"kind": "wor", "units": u, "batch": b} for n, (u, b, _) in enumerate(samplers)},
        **{
            f"parties.{n}.initial_sampler": {"kind": "wor", "units": u, "batch": b}
            for n, (u, _, b) in enumerate(samplers)
        },
    })  # fmt: skip
    meaning, charge = verify_with_charge(made, "", Policy())
    costs = {party: verify_with_charge(made, party, Policy())[1].cost for party in made.parties}
    lies = [cost.epsilon_if_a_server_lies or 0.0 for cost in costs.values()]
    assert meaning.worst_party == max(costs, key=lambda party: costs[party].epsilon)
    assert (costs[meaning.worst_party].epsilon_if_a_server_lies or 0.0) < max(lies)
    assert charge.cost.epsilon_if_a_server_lies == pytest.approx(max(lies))
    assert charge.cost.epsilon == costs[meaning.worst_party].epsilon
