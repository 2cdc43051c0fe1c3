"""What a schema says of its transforms: public, bounded, and the same after a manifest."""

from typing import Any

import pytest

from parley.learning.errors import SchemaError
from parley.learning.schema import schema_from_json
from parley.learning.transforms import declared, named_code

DIGITS = {"count": 784, "low": 0, "high": 255, "spread": 255}
TARGET = {"name": "label", "kind": "classes", "classes": ["0", "1", "2"]}
SCATTERING = {"kind": "scattering", "shape": [1, 28, 28]}
OWN = {
    "kind": "torch:hospital.features:extract",
    "shape": [1, 28, 28],
    "columns": 64,
    "digest": "sha256:" + "0a" * 32,
    "trained_on": "CIFAR-100",
    "declared_by": "Dr. Ada Osei",
}


def body(transform: Any, **more: Any) -> dict[str, Any]:
    return {"features": DIGITS, "target": TARGET, "transform": transform, "bits": 4, **more}


def test_dimension_bound_and_reach_follow_from_the_transform() -> None:
    schema = schema_from_json(body(SCATTERING, intercept=True))
    assert (schema.columns, schema.width, schema.dimension) == (784, 3969, 3970)
    assert schema.fraction_bits == 4
    # 27 groups of 3 channels of 7 x 7: a row is no longer than the root of its features, and half a step each.
    assert 63 < schema.feature_bound < 66
    assert schema.integer_reach == (-194, 194)
    assert schema.before.dimension == 784
    assert schema.before.fraction_bits == 14
    pooled = schema_from_json(body({**SCATTERING, "pool": 4, "groups": 3}))
    assert pooled.width == 81 * 16


def test_several_stand_side_by_side() -> None:
    schema = schema_from_json(body([{**SCATTERING, "pool": 4}, OWN]))
    assert schema.width == 81 * 16 + 64
    assert schema_from_json(schema.as_json()) == schema
    assert hash(schema_from_json(schema.as_json())) == hash(schema)
    assert named_code(schema.transform) == {OWN["kind"]: OWN["digest"]}
    assert declared(schema.transform) == (
        "torch:hospital.features:extract: trained on CIFAR-100, says Dr. Ada Osei: declared, not checked",
    )


def test_a_schema_without_one_is_written_as_before() -> None:
    assert "transform" not in schema_from_json({"features": DIGITS, "target": TARGET}).as_json()


def test_wide_bounds_leave_a_transform_fewer_bits() -> None:
    schema = schema_from_json(body(SCATTERING, features={"count": 784, "low": 0, "high": 65535}))
    assert 0 <= schema.before.fraction_bits < 14
    with pytest.raises(SchemaError, match="raise spreads"):
        schema_from_json(body(SCATTERING, features={"count": 784, "low": 0, "high": 1e30}))


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ({**SCATTERING, "kind": "pickle"}, 'use "scattering"'),
        ({**SCATTERING, "shape": [28, 28]}, r"give \[channels, height, width\]"),
        ({**SCATTERING, "shape": [1, 28, 27]}, "756 and there are 784 columns"),
        ({**SCATTERING, "shape": [1, -28, -28]}, "a side of shape is -28"),
        ({**SCATTERING, "groups": 4}, "use one of 1, 3, 9, 27, 81"),
        ({**SCATTERING, "groups": 0}, "groups is 0"),
        ({**SCATTERING, "scales": 5}, "no scale of 32"),
        ({**SCATTERING, "scales": True}, "scales is True"),
        ({**SCATTERING, "pool": 8}, "pool is 8"),
        ({**SCATTERING, "angle": 8}, "no field 'angle'"),
        ({**SCATTERING, "angles": 16, "scales": 3, "groups": 1}, None),
        ({"kind": "scattering", "shape": [1, 512, 512], "scales": 5, "angles": 16, "pool": 1, "groups": 1}, "too long"),
        ([], "a list of up to 8"),
        ([SCATTERING] * 9, "a list of up to 8"),
        ([SCATTERING, 5], "kind is 'None'"),
        ({"kind": "scattering", "shape": [1, 28, 28], "scales": 1, "angles": 16, "pool": 1, "groups": 17}, "one feat"),
        ({**OWN, "digest": "sha256:12"}, "digest is"),
        ({**OWN, "trained_on": ""}, "trained_on is"),
        ({**OWN, "kind": "torch:os.system"}, "give torch:package.module:extract"),
        ({**OWN, "kind": "torch:a/../b:c"}, "give torch:package.module:extract"),
        ({**OWN, "columns": 1 << 20}, "columns is"),
        ({**OWN, "groups": 5}, "does not divide 64"),
        ({each: value for each, value in OWN.items() if each != "declared_by"}, "declared_by"),
        ([{**OWN, "columns": 1 << 18}, OWN], "more than 262,144"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_write(transform: Any, said: str | None) -> None:
    if said is None:
        schema_from_json(body(transform))
        return
    with pytest.raises(SchemaError, match=said):
        schema_from_json(body(transform))


def test_a_transform_needs_no_columns_without_names() -> None:
    columns = [{"name": "pixel_{1..64}", "low": 0, "high": 1}]
    schema = schema_from_json(
        {"features": columns, "target": TARGET, "transform": {"kind": "scattering", "shape": [1, 8, 8]}}
    )
    assert schema.columns == 64
    assert schema.width == 81 * 4
