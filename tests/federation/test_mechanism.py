"""The mechanism's part of a manifest: there and back, and every slip named by its field."""

from typing import Any

import pytest

from parley.federation.errors import ManifestError
from parley.federation.mechanism import MOST_PARTIES, mechanism_table, party_tables, sampling_sentence
from tests.support.documents import BODY, manifest

GRADIENT = {"kind": "gradient", "norm": 2.0}
POISSON = {"kind": "poisson", "units": 300, "expected": 15, "cap": 40}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mechanism.clip": GRADIENT},
        {"mechanism.unit_column": "patient", "schema.unit": "patient"},
        {f"parties.{place}.sampler": POISSON for place in range(3)},
        {"parties.0.initial_sampler": {"kind": "wor", "units": 300, "batch": 300}},
    ],
)
def test_the_tables_read_back_as_they_were(changes: dict[str, Any]) -> None:
    if "parties.0.initial_sampler" in changes:
        changes = {
            **changes,
            "parties.1.initial_sampler": {"kind": "wor", "units": 200, "batch": 200},
            "parties.2.initial_sampler": {"kind": "wor", "units": 100, "batch": 100},
        }
    made = manifest(**changes)
    again = manifest(**changes, mechanism=mechanism_table(made.mechanism), parties=party_tables(made.mechanism))
    assert again.mechanism == made.mechanism
    assert again.digest == made.digest


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("mechanism.noise_multiplier", 0.0, "mechanism.noise_multiplier"),
        ("mechanism.noise_multiplier", 1e-9, "mechanism.noise_multiplier: is 1e-09: give at least"),
        ("mechanism.relation", "add-remove", "mechanism.relation"),
        ("mechanism.steps", 0, "mechanism.steps"),
        ("mechanism.clip.kind", "none", "mechanism.clip.kind"),
        ("mechanism.clip", {"kind": "gradient", "norm": 0.0}, "mechanism.clip.norm"),
        ("mechanism.clip", {"kind": "gradient", "norm": 1.0, "gamma": 1.0}, "mechanism.clip.gamma"),
        ("mechanism.clip.gamma", 1.5, "mechanism.clip.gamma"),
        ("mechanism.sigma", 1.0, "mechanism.sigma"),
        ("parties", [], "parties: are 0: list 1 to 10,000"),
        ("parties.1.name", "hospital-a", r"parties\[1\].name: 'hospital-a' is there twice"),
        ("parties.0.sampler.batch", 301, r"parties\[0\].sampler.batch"),
        ("parties.0.sampler", {**POISSON, "cap": 5}, r"parties\[0\].sampler.cap"),
        ("parties.2.sampler.kind", "all", r"parties\[2\].sampler.kind"),
    ],
)
def test_a_slip_is_named_by_its_field(path: str, value: Any, says: str) -> None:
    with pytest.raises(ManifestError, match=says):
        manifest(**{path: value})


def test_so_many_parties_are_refused_before_they_are_read() -> None:
    with pytest.raises(ManifestError, match=f"parties: are {MOST_PARTIES + 1}: list 1 to"):
        manifest(parties=[BODY["parties"][0]] * (MOST_PARTIES + 1))


def test_a_sentence_says_how_batches_are_drawn() -> None:
    assert sampling_sentence(manifest().mechanism) == (
        "a fixed number of units, without replacement, at rate 0.05; 30 expected per round"
    )
    uneven = manifest(**{"parties.0.sampler.batch": 150}).mechanism
    assert "at rate 0.05 to 0.5; 165 expected per round" in sampling_sentence(uneven)
    poisson = manifest(**{f"parties.{place}.sampler": POISSON for place in range(3)}).mechanism
    assert sampling_sentence(poisson).startswith("each unit independently, padded to a cap, at rate 0.05; 45")
