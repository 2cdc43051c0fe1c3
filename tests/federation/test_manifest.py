"""The manifest: one meaning, one spelling, one digest; and every mistake is named."""

import copy
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.federation.errors import ManifestError
from parley.federation.manifest import HEADER, Manifest
from tests.support.documents import BODY, manifest
from tests.support.manifests import LEAVES, field_of

PINNED = "f97e59bb5aff3e3f7d82a8a3e54a4f79d0e5368cf133a2db2d4d5b0908c127d9"
"""Of the canonical form of BODY: what another release or platform has to reproduce."""


def toml(value: Any) -> str:
    """Inline TOML, floats spelled at length."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return f"{value:.20e}"
    return json.dumps(value)


MANY = {"kind": "wor", "units": 10**8, "batch": 10**8}
POISSON = {"kind": "poisson", "units": 9, "expected": 5, "cap": 9}


def other(value: Any) -> Any:
    """A different valid-looking value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.75
    return value + "x"


def test_the_canonical_form_reads_back_to_itself() -> None:
    made = manifest()
    assert made.canonical.startswith(HEADER)
    assert Manifest.from_canonical(made.canonical) == made
    assert made.digest.hex() == PINNED


def test_a_partys_data_set_is_content_and_where_none_is_named_nothing_is_written() -> None:
    made, named = manifest(), manifest(**{"parties.1.data_set": "cardiology"})
    assert b"data_set" not in made.canonical
    assert named.digest != made.digest
    assert Manifest.from_canonical(named.canonical) == named
    assert [named.data_set_of(party) for party in named.parties] == ["", "cardiology", ""]
    assert (made.data_sets, named.mechanism) == ((), made.mechanism)
    for wrong in ("", "../x", "Two words", 7, ["cardiology"], None):
        with pytest.raises(ManifestError, match=r"parties\[1\].data_set: is"):
            manifest(**{"parties.1.data_set": wrong})


def test_packed_uploads_are_content_and_without_the_field_numbers_are_words_of_8_bytes() -> None:
    made, packed = manifest(), manifest(**{"rounds.uploads": "packed"})
    assert b"uploads" not in made.canonical
    assert (made.share_bits, packed.share_bits) == (64, 39)
    assert packed.digest != made.digest
    assert Manifest.from_canonical(packed.canonical) == packed
    assert manifest(**{"rounds.uploads": "packed", "noise.precision": "high"}).share_bits == 33
    for index in packed.kinds_of_rounds:
        assert packed.lattice(index).opening_bits == 39


def test_an_audit_rate_is_content_of_covert_alone_and_spelled_out_where_it_was_left_out() -> None:
    assert b"audit" not in manifest().canonical
    usual = manifest(**{"noise.security": "covert"})
    assert b'"audit":"1/8"' in usual.canonical
    assert usual == manifest(**{"noise.security": "covert", "noise.audit": "1/8"})
    assert Manifest.from_canonical(usual.canonical) == usual
    assert usual.noise.parts.audit_rate == Fraction(1, 8)
    digests = {manifest(**{"noise.security": "covert", "noise.audit": f"1/{n}"}).digest for n in (16, 8, 4, 2)}
    assert len(digests | {manifest().digest}) == 5
    for edited in (usual.canonical.replace(b'"audit":"1/8",', b""), usual.canonical.replace(b'"1/8"', b'" 1/8"')):
        with pytest.raises(ManifestError):
            Manifest.from_canonical(edited)


def shuffled(value: Any, draw: Any) -> Any:
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: shuffled(value[key], draw) for key in keys}
    if isinstance(value, list):
        return [shuffled(each, draw) for each in value]
    return value


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_neither_the_order_of_keys_nor_the_spelling_of_floats_changes_the_digest(data: Any) -> None:
    mixed = shuffled(copy.deepcopy(BODY), data.draw)
    assert Manifest.from_json(mixed).digest == manifest().digest
    text = "\n".join(f"{key} = {toml(value)}" for key, value in mixed.items())
    assert Manifest.from_toml(text).digest == manifest().digest


@pytest.mark.parametrize("path", ["privacy.epsilon", "rounds.deadline_seconds", "mechanism.clip.gradient_norm"])
def test_a_whole_number_in_a_real_field_is_the_same_number(path: str) -> None:
    assert manifest(**{path: 2}).digest == manifest(**{path: 2.0}).digest


@pytest.mark.parametrize("path", sorted(LEAVES))
def test_any_single_field_changes_the_digest_or_is_refused(path: str) -> None:
    try:
        changed = manifest(**{path: other(LEAVES[path])})
    except ManifestError as error:
        # Only what has one or few legal values may be refused here.
        assert path in {
            "protocol", "privacy.accountant", "mechanism.relation", "mechanism.clip.kind", "noise.cover",
            "noise.precision", "noise.own", "noise.security", *(f"parties.{index}.sampler.kind" for index in range(3)),
        }, error  # fmt: skip
        assert error.field == field_of(path)
    else:
        assert changed.digest != manifest().digest


numbers = st.floats(0.05, 40, allow_nan=False)
documents = st.fixed_dictionaries(
    {
        "privacy.epsilon": numbers,
        "mechanism.noise_multiplier": numbers,
        "mechanism.steps": st.integers(1, 1000),
        "rounds.deadline_seconds": numbers,
        "run": st.sampled_from(["a", "b", "run-1"]),
        "coordinator.legal_entity": st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8),
        "regulariser": st.dictionaries(
            st.sampled_from(["kind", "weight", "ü"]),
            st.one_of(st.booleans(), st.integers(-5, 5), numbers, st.just("1")),
        ),
    }
)


@given(documents, documents)
@settings(max_examples=150, deadline=None)
def test_two_documents_share_bytes_only_if_they_mean_the_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    first, second = manifest(**one), manifest(**two)
    assert (first.canonical == second.canonical) == (first == second)
    assert Manifest.from_canonical(first.canonical) == first
    assert first.canonical.isascii()


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"rounds.minimum_parties": 4}, "rounds.minimum_parties", "3 parties"),
        ({"rounds.minimum_parties": 1}, "rounds.minimum_parties", "from 2"),
        ({"aggregators.1.name": "north"}, "aggregators[1].name", "both"),
        ({"aggregators.1.legal_entity": " NORTH  trust"}, "aggregators[1].legal_entity", "two legal entities"),
        ({"aggregators": BODY["aggregators"][:1]}, "aggregators", "exactly two"),
        ({"parties.1.name": "hospital-a"}, "parties[1].name", "twice"),
        ({"parties.2.sampler.batch": 101}, "parties[2].sampler.batch", "exceeds"),
        ({"parties.0.sampler": POISSON | {"cap": 4}}, "parties[0].sampler.cap", "cap"),
        ({"parties.0.sampler": POISSON}, "parties", "different ways"),
        ({"mechanism.unit_column": "patient"}, "mechanism.unit_column", "schema.unit"),
        ({"mechanism.relation": "add-or-remove"}, "mechanism.relation", "replace-one"),
        ({"mechanism.noise_multiplier": 0}, "mechanism.noise_multiplier", "above 0"),
        ({"mechanism.noise_multiplier": 0.049}, "mechanism.noise_multiplier", "at least"),
        ({"parties.0.sampler": MANY, "noise.fraction_bits": 24}, "noise.fraction_bits", "fewer fraction bits"),
        ({"privacy.accountant": "lower"}, "privacy.accountant", "pld"),
        ({"model.dimension": 0}, "model.dimension", "from 1"),
        ({"protocol": 1}, "protocol", "from 2 to 2"),
        ({"noise.own": 0.3}, "noise.own", "is 0.3: use 0, 0.25, 0.5 or 1"),
        ({"noise.security": "malicious"}, "noise.own", "make own 1"),
        ({"noise.security": "rational"}, "noise.security", "upgrade"),
        ({"noise.security": "covert", "noise.own": 0}, "noise.own", "use 0.25, 0.5 or 1"),
        ({"noise.security": "covert", "noise.audit": "1/3"}, "noise.audit", "use 1/16, 1/8"),
        ({"noise.security": "covert", "noise.audit": 0.125}, "noise.audit", "text"),
        ({"noise.security": "covert", "noise.audit": "1"}, "noise.audit", "would never begin"),
        ({"noise.audit": "1/8"}, "noise.audit", "leave audit out"),
        ({"noise.security": "covert", "noise.audits": "1/8"}, "noise.audits", "did you mean 'audit'"),
        ({"privacy.epsilon_if_a_server_lies": 0.0}, "privacy.epsilon_if_a_server_lies", "above 0"),
        ({"rounds.uploads": "words"}, "rounds.uploads", "use packed"),
        ({"rounds.uploads": True}, "rounds.uploads", "text"),
        ({"rounds.upload": "packed"}, "rounds.upload", "did you mean 'uploads'"),
        ({"federation": "Cardio/x"}, "federation", "a-z"),
        ({"schema.when": float("nan")}, "schema.when", "finite"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(ManifestError, match=says) as caught:
        manifest(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"2.0", b"2.00", 1),
        lambda data: data.replace(b'"protocol":2', b'"protocol": 2', 1),
        lambda data: data.replace(b'"run":"heart-1"', b'"run":"x","run":"heart-1"', 1),
        lambda data: data.replace(b'"heart-1"', b'"\\u0068eart-1"', 1),
        lambda data: data.replace(b"1e-05", b"0.00001", 1),
        lambda data: data + b"\n",
        lambda data: data[len(HEADER) :],
        lambda data: data.replace(b"manifest 2", b"manifest 1", 1),
        lambda data: data.replace(b'"own":0.5', b'"own":-0.0', 1),
        lambda data: HEADER + b"[" * 100_000,
        lambda data: HEADER + b"\xff",
        lambda data: HEADER + b"9" * 5000,
        lambda data: HEADER + b"null",
        lambda data: data + b" " * (1 << 20),
    ],
)
def test_bytes_that_this_node_would_not_have_written_are_refused(spoil: Any) -> None:
    with pytest.raises(ManifestError):
        Manifest.from_canonical(spoil(manifest().canonical))


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises(ManifestError):
        Manifest.from_canonical(HEADER + data)


def test_free_tables_cannot_be_altered_from_outside() -> None:
    made = manifest()
    before = made.digest
    made.schema.body["intercept"] = False
    assert Manifest.from_canonical(made.canonical).digest == before
    assert made.schema.body["intercept"] is True
