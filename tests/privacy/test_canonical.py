"""One spelling of JSON: what lies in ledgers and manifests already was spelled so, and has to be for ever."""

import hashlib
import math
from typing import Any

import pytest

from parley.privacy.canonical import canonical_json, digest_of


@pytest.mark.parametrize(
    ("body", "spelled"),
    [
        ({"b": 1, "a": [1.0, 1e-5, None, True]}, '{"a":[1.0,1e-05,null,true],"b":1}'),
        ({"name": "Käthe", "newline": "\n"}, '{"name":"K\\u00e4the","newline":"\\n"}'),
        ({"z": {"y": 0.1, "x": 1e22}}, '{"z":{"x":1e+22,"y":0.1}}'),
        ([], "[]"),
    ],
)
def test_keys_are_sorted_and_there_is_neither_a_space_nor_a_letter_beyond_ascii(body: Any, spelled: str) -> None:
    assert canonical_json(body) == spelled
    assert digest_of(body) == hashlib.sha256(spelled.encode()).hexdigest()


def test_the_order_in_which_it_was_written_does_not_count_and_a_numbers_kind_does() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 1.0})


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_nothing_infinite_is_spelled(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"epsilon": number})
