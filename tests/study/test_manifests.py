"""A drafted manifest is one that every role's own check accepts, at exactly the epsilon that was wanted."""

from typing import Any

import pytest

from parley.algorithms.registry import named_by
from parley.algorithms.regularisers import Regulariser
from parley.demo.recipe import STUDY
from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest, Operator
from parley.federation.meaning import verify
from parley.learning.contributor import Encoding
from parley.learning.schema import Schema, schema_from_json
from parley.models.registry import build_model
from parley.mpc.errors import MpcError
from parley.mpc.parts import NoiseParts, parts_of
from parley.mpc.tables import FORMATS
from parley.privacy.errors import InvalidParameterError
from parley.study.errors import StudyError
from parley.study.manifests import draft, first_within, smallest_own

A9A = schema_from_json(
    {
        "features": {"count": 123, "low": 0, "high": 1, "whole": True},
        "target": {"name": "label", "kind": "binary", "positive": ["1"], "negative": ["-1"]},
        "nonzeros": 14,
        "intercept": True,
    }
)
ALGORITHM, MODEL, SIZES = STUDY.algorithm, STUDY.model, STUDY.parties
TEN = {f"bank-{index}": 3256 + (index == 0) for index in range(10)}
SRM = {"name": "ddp-srm", "gradient_norm": 2.0, "difference_norm": 0.02, "gamma": 0.4, "batch": 500}


def drafted(**changes: Any) -> Manifest:
    wanted: dict[str, Any] = {
        "run": "a-run",
        "federation": "banks",
        "model": MODEL,
        "algorithm": SRM,
        "schema": A9A,
        "sizes": TEN,
        "epsilon": 0.5,
        "delta": 1e-5,
        "aggregators": STUDY.aggregators,
        "coordinator": STUDY.coordinator,
    }
    return draft(**{**wanted, **changes})


def accepted(made: Manifest) -> float:
    """Checked as roles check it; the share of the claimed epsilon that is used."""
    named_by(made)
    return verify(made).epsilon / made.guarantee.epsilon


def test_what_a_liar_may_cost_chooses_the_own_noise_and_leaves_the_audits_as_they_are() -> None:
    tried: list[NoiseParts] = []

    def cost(parts: NoiseParts) -> tuple[str, float | None]:
        tried.append(parts)
        return "made", {0.25: None, 0.5: 4.0, 1.0: 2.0}[parts.own]

    assert first_within(2.5, parts_of("covert", 0.25, "1/4"), cost) == "made"
    assert tried == [NoiseParts("covert", own, "1/4") for own in (0.25, 0.5, 1.0)]


def test_the_demonstrations_manifest_is_accepted_and_uses_its_epsilon_up() -> None:
    body = STUDY.manifest().as_json()
    made = Manifest.from_json(body)
    assert (made.guarantee.epsilon, made.guarantee.delta) == (STUDY.epsilon, STUDY.delta)
    assert {name: made.mechanism.sampler(name, 0).units for name in made.parties} == SIZES
    assert made.algorithm.parameters.body == {name: value for name, value in ALGORITHM.items() if name != "name"}
    assert 0.998 < accepted(made) <= 1


@pytest.mark.parametrize(
    ("algorithm", "accountant"),
    [(SRM, "pld"), ({**SRM, "sampling": "poisson"}, "rdp"), ({"name": "auto"}, "pld")],
    ids=["wor-pld", "poisson-rdp", "auto-pld"],
)
def test_a_study_of_ten_parties_is_accepted(algorithm: dict[str, Any], accountant: str) -> None:
    made = drafted(algorithm=algorithm, accountant_name=accountant)
    assert 0.998 < accepted(made) <= 1
    assert made.minimum_parties == 10


@pytest.mark.slow
def test_parties_of_unequal_rates_all_keep_to_the_claim() -> None:
    made = drafted(
        algorithm={**SRM, "batch": 97},
        sizes={"big": 9001, "small": 613, "middle": 3333},
        epsilon=1.0,
        minimum_parties=2,
        regulariser=Regulariser("nonconvex", 0.001),
    )
    assert 0.998 < accepted(made) <= 1
    assert (made.minimum_parties, made.regulariser.body) == (2, {"kind": "nonconvex", "weight": 0.001})


def test_the_lattice_is_the_parties_own() -> None:
    loud, quiet = drafted(), drafted(epsilon=8.0, algorithm={**SRM, "batch": 8000})
    limit = build_model(MODEL, A9A).largest_limit
    for made in (loud, quiet):
        scale_bits = FORMATS[made.noise.precision].scale_bits
        assert made.noise.fraction_bits == Encoding.of(made.mechanism, scale_bits, limit).fraction_bits
    assert accepted(quiet) <= 1


def test_the_unit_of_the_schema_is_the_unit_that_is_protected() -> None:
    patients = schema_from_json({**STUDY.schema.as_json(), "unit": "patient", "records_per_unit": 4})
    made = drafted(schema=patients, sizes=SIZES, algorithm=ALGORITHM, epsilon=2.0)
    assert made.mechanism.unit.column == "patient"
    assert accepted(made) <= 1


def test_precision_is_raised_where_the_cheap_preset_would_cost_too_much() -> None:
    wide: Schema = schema_from_json(
        {
            "features": {"count": 1 << 17, "low": 0, "high": 1, "whole": True},
            "target": {"name": "y", "kind": "binary", "positive": ["1"], "negative": ["0"]},
        }
    )
    found = drafted(schema=wide, algorithm={"name": "dp-gd", "steps_taken": 40}, epsilon=0.2)
    assert found.noise.precision == "high"
    assert accepted(found) <= 1
    with pytest.raises((InvalidParameterError, MpcError)):
        drafted(schema=wide, algorithm={"name": "dp-gd", "steps_taken": 40}, epsilon=0.2, precision="standard")


@pytest.mark.slow
def test_the_noise_is_the_same_with_own_parts_and_the_lattice_finer_by_them() -> None:
    """σ′ counts joint and own parts together, so only the certificate's second sample moves it, by its terms."""
    made = {own: drafted(parts=NoiseParts("semi-honest", own)) for own in (0.0, 0.5, 1.0)}
    made[2.0] = drafted(parts=NoiseParts("malicious", 1.0))
    for each in made.values():
        assert accepted(each) <= 1
        assert each.mechanism.noise_multiplier == pytest.approx(made[0.0].mechanism.noise_multiplier, rel=0.01)
    units = {own: each.lattice(1).unit / each.mechanism.noise_deviation(1) for own, each in made.items()}
    assert units == pytest.approx({0.0: 1.0, 0.5: 1.25**-0.5, 1.0: 2**-0.5, 2.0: 1.0})
    released = {own: each.released_deviation(1) / each.lattice(1).unit for own, each in made.items()}
    assert released == pytest.approx({0.0: 1.0, 0.5: 1.5**0.5, 1.0: 3**0.5, 2.0: 2**0.5})


@pytest.mark.slow
def test_the_least_own_noise_is_chosen_that_keeps_to_what_a_lying_server_may_cost() -> None:
    study: dict[str, Any] = {
        "run": "a-run", "federation": "banks", "model": MODEL, "algorithm": {**SRM, "batch": 2000}, "schema": A9A,
        "sizes": TEN, "epsilon": 0.5, "delta": 1e-5, "aggregators": STUDY.aggregators, "coordinator": STUDY.coordinator,
    }  # fmt: skip
    known = {own: verify(draft(**study, parts=NoiseParts("semi-honest", own))) for own in (0.25, 0.5, 1.0)}
    costs = {own: found.epsilon_if_a_server_lies for own, found in known.items()}
    assert costs[0.5] is not None
    assert costs[1.0] is not None
    assert smallest_own(costs[0.5], study).noise.parts.own == 0.5
    assert smallest_own(costs[0.5] * 0.999, study).noise.parts.own == 1.0
    with pytest.raises(InvalidParameterError, match=r"worst_epsilon is .* and the most own noise"):
        smallest_own(costs[1.0] * 0.99, study)
    whole = smallest_own(0.5, {**study, "parts": NoiseParts("malicious", 1.0)})
    assert whole.noise.parts.security == "malicious"


def test_what_is_not_private_is_refused() -> None:
    with pytest.raises(StudyError, match="not private"):
        drafted(algorithm={"name": "storm"})


def test_a_small_model_has_noise_for_a_histogram_that_is_longer() -> None:
    """`norms` answers with 24 numbers, dp-agd's losses with up to 32: every round has noise for 64."""
    made = drafted(schema=STUDY.schema, sizes=SIZES, epsilon=2.0, algorithm={"name": "auto"})
    assert made.model.dimension < 24 <= made.longest_answer
    assert made.samples == 2 * made.longest_answer * made.releases  # joint, and the other server's own


def test_what_cannot_be_drafted_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="takes over 1%"):
        drafted(epsilon=1e-9)
    with pytest.raises(ManifestError, match="legal entities"):
        drafted(aggregators=(Operator("a", "One"), Operator("b", "one")))
