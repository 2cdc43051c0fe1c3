"""A schema is public, and all that there is."""

import pytest

from parley.learning.errors import SchemaError
from parley.learning.schema import schema_from_json
from tests.support.tables_of_records import AGE, BINARY, SEX


def test_a_schema_survives_json_and_refuses_unknown_fields() -> None:
    body = {"features": [AGE, SEX], "target": BINARY, "intercept": True}
    schema = schema_from_json(body)
    assert schema_from_json(schema.as_json()) == schema
    assert schema.dimension == 4
    assert schema.feature_bound == pytest.approx(3**0.5)
    with pytest.raises(SchemaError, match="no field 'lo'"):
        schema_from_json({**body, "features": [{**AGE, "lo": 1}]})
