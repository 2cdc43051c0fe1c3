"""A study's model, ready to be asked. A PyTorch module's code is imported and runs here, in its user's own process.

It is opened once for as long as its package's files stay as they are: who edits them and simulates again, gets what the
files say now.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from parley.federation.fields import Plain
from parley.learning.models import Model
from parley.learning.schema import Schema
from parley.learning.transforms import named_code
from parley.models.module_spec import ModuleSpec, digest_of, is_module
from parley.models.registry import build_model, open_model

if TYPE_CHECKING:
    from parley.study.study import Study


def opened(model: Plain, schema: Schema) -> Model:
    """Of the table [model]."""
    body = model.body
    if not is_module(body.get("kind")):
        return build_model(body, schema)
    spec = ModuleSpec.of(body, schema)
    return _module(model, schema, digest_of(spec, schema.outputs))


@lru_cache(maxsize=4)
def _module(model: Plain, schema: Schema, digest: str) -> Model:
    return open_model({**model.body, "digest": model.body.get("digest", digest)}, schema)


def code_of(study: "Study") -> tuple[str, ...]:
    """Names of all code that a study is of: its own user may run it here."""
    return (str(study.model["kind"]), *named_code(study.schema.transform))


def table_of(model: Plain, schema: Schema) -> dict[str, Any]:
    """The table as manifests and model files have it: of a module with the digest and the probe that it has here."""
    built = opened(model, schema)
    spec = getattr(built, "spec", None)
    body = spec.body() if isinstance(spec, ModuleSpec) else model.body
    return {**body, "dimension": built.dimension}
