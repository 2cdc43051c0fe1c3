"""Fields of a document: known by name, of one type, within bounds."""

from collections.abc import Iterator
from typing import Any

import pytest

from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from tests.support.documents import BODY, body, manifest
from tests.support.manifests import LEAVES, field_of

FREE = ("model", "algorithm", "regulariser", "schema")


def tables(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tables(each, f"{path}.{key}" if path else str(key))


STRICT_TABLES = [path for path in tables(BODY) if not path.startswith(FREE)]


@pytest.mark.parametrize("path", STRICT_TABLES)
def test_an_unknown_field_is_refused_by_name(path: str) -> None:
    with pytest.raises(ManifestError) as caught:
        manifest(**{f"{path}.surprise" if path else "surprise": 1})
    assert caught.value.field == (f"{field_of(path)}.surprise" if path else "surprise")
    assert "unknown" in str(caught.value)


def test_a_misspelt_field_is_suggested() -> None:
    made = body()
    made["noise"]["fraction_bit"] = made["noise"].pop("fraction_bits")
    with pytest.raises(ManifestError, match=r"noise\.fraction_bits: is missing; did you mean 'fraction_bit'"):
        Manifest.from_json(made)
    with pytest.raises(ManifestError, match=r"did you mean 'minimum_parties'"):
        manifest(**{"rounds.minimum_partys": 3})
    with pytest.raises(ManifestError, match=r"did you mean 'strips'"):
        manifest(**{"noise.cover": "stripes"})


OPTIONAL = {
    path for path in LEAVES if path.startswith(FREE) and path not in {"model.kind", "model.dimension", "algorithm.name"}
}


@pytest.mark.parametrize("path", sorted(set(LEAVES) - OPTIONAL))
def test_a_missing_field_is_named(path: str) -> None:
    made = body()
    *way, last = path.split(".")
    place: Any = made
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    del place[last]
    with pytest.raises(ManifestError, match="is missing") as caught:
        Manifest.from_json(made)
    assert caught.value.field == field_of(path)


@pytest.mark.parametrize("path", sorted(set(LEAVES) - OPTIONAL))
@pytest.mark.parametrize("wrong", [None, True, float("nan"), float("inf"), -1, "", "two\nlines", [], {}, 1 << 70])
def test_a_value_of_another_type_or_out_of_range_is_named(path: str, wrong: Any) -> None:
    with pytest.raises(ManifestError) as caught:
        manifest(**{path: wrong})
    assert caught.value.field == field_of(path)
