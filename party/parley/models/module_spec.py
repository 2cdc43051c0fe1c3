"""A module of an institution's own, as a study or a manifest names it. Imports no torch, and runs nothing of it.

kind = "torch:hospital_models.nets:build"      # package.module:function, installed at every party
options = { width = 16 }                       # keyword arguments of build()
input = [1, 28, 28]                            # how a row is shaped; left out, it stays a flat row
loss = "cross-entropy"                         # left out, it follows from the target
digest = "sha256:…"                            # of the options and the package's exact bytes: `parley model show`
probe = [0.1, …]                               # what the module makes of public inputs
"""

import hashlib
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from parley.learning.errors import ModelError
from parley.learning.schema import Schema
from parley.models.package_files import PackageFiles
from parley.privacy.canonical import canonical_json
from parley.privacy.errors import PrivacyError

PREFIX = "torch:"
NAME = re.compile(r"torch:([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
LONGEST_KIND = 200
MOST_AXES = 6
MOST_PROBED = 128
"""Numbers of a probe."""
LOSSES = {
    "cross-entropy": ("classes",),
    "binary-cross-entropy": ("binary",),
    "squared": ("number",),
    "huber": ("number",),
}
"""Built in, and the kinds of targets that each is for; the first for a kind is its usual one."""
FIELDS = ("kind", "options", "input", "loss", "digest", "probe")
OWN_NETWORKS = "parley.networks"
"""The only room of parley that a module may be of."""
NO_NETWORKS = frozenset({*sys.stdlib_module_names, "torch"})
"""Packages whose functions a stranger's study might name to have them called, and which are nobody's network."""
HEADER = b"parley module 1\n"

Reach = tuple[tuple[float, float], ...]


def is_module(kind: Any) -> bool:
    """Whether this kind of model is somebody's module, and not built in."""
    return isinstance(kind, str) and kind.startswith(PREFIX)


@dataclass(frozen=True)
class ModuleSpec:
    """Which function of which installed package makes the module, and what it is told."""

    kind: str
    options: Mapping[str, Any]
    input: tuple[int, ...]
    """The shape of one record, whose numbers are a row's."""
    loss: str
    digest: str | None = None
    """None in a person's own process only; a manifest has it."""
    probe: tuple[float, ...] = ()
    reach: Reach = ((-1.0, 1.0),)
    """Between which numbers a row lies, by the schema's public bounds: for all columns, or of each. Not in `body`."""
    whole: bool = False
    """Whether the schema's rows are whole numbers, as an embedding looks them up. Not in `body`."""

    @classmethod
    def of(cls, body: Mapping[str, Any], schema: Schema) -> "ModuleSpec":
        """From the table [model], or from a manifest's, on the columns of this schema."""
        for name in body:
            if name not in FIELDS:
                raise ModelError(f"[model] has no field {name!r}: use {', '.join(FIELDS)}")
        target = schema.target.kind
        loss = body.get("loss", next(name for name, kinds in LOSSES.items() if target in kinds))
        return cls(
            checked_kind(body.get("kind")),
            _options(body.get("options", {})),
            _shape(body.get("input", (schema.dimension,)), schema),
            _loss(loss, target),
            _digest(body.get("digest")),
            _probe(body.get("probe", ())),
            _reach(schema),
            schema.fraction_bits == 0,
        )

    def __post_init__(self) -> None:
        checked_kind(self.kind)
        if is_module(self.loss) and _package(self.loss) != _package(self.kind):
            raise ModelError(
                f"[model] loss is of the package {_package(self.loss)} and the module of {_package(self.kind)}: "
                "keep both in one package, which one digest covers"
            )

    @property
    def module(self) -> str:
        """The dotted name to import."""
        return self.kind.split(":")[1]

    @property
    def function(self) -> str:
        """What to call in it."""
        return self.kind.split(":")[2]

    def body(self) -> dict[str, Any]:
        """As a manifest has it; `of` is its inverse on the same schema."""
        found: dict[str, Any] = {
            "kind": self.kind,
            "options": dict(self.options),
            "input": list(self.input),
            "loss": self.loss,
        }
        if self.digest is not None:
            found["digest"] = self.digest
        if self.probe:
            found["probe"] = list(self.probe)
        return found


def digest_of(spec: ModuleSpec, outputs: int) -> str:
    """Of what the module is told and of its package's exact bytes, as they lie here; reads them and imports nothing."""
    return digest_with(spec, outputs, PackageFiles.find(spec.module))


def digest_with(spec: ModuleSpec, outputs: int, files: PackageFiles) -> str:
    """The same of bytes that were read before."""
    if is_module(spec.loss):
        files.require_within(spec.loss.split(":")[1])
    told = {
        "kind": spec.kind,
        "options": dict(spec.options),
        "input": list(spec.input),
        "loss": spec.loss,
        "outputs": outputs,
    }
    found = hashlib.sha256(HEADER + canonical_json(told).encode("ascii") + b"\n")
    found.update(files.canonical)
    return f"sha256:{found.hexdigest()}"


def module_in_card(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a model's card says of the code that made it; None for a model that is built in."""
    if not is_module(model.get("kind")):
        return None
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    return {"kind": model["kind"], "digest": model.get("digest"), "torch": torch}


def checked_kind(kind: Any) -> str:
    """The kind, if it names a function of a package that may be a model."""
    found = NAME.fullmatch(kind) if isinstance(kind, str) and len(kind) <= LONGEST_KIND else None
    if found is None:
        raise ModelError(f"[model] kind is {_short(kind)}: write torch:package.module:function")
    module = found[1]
    if module.split(".")[0] == "parley" and not f"{module}.".startswith(f"{OWN_NETWORKS}."):
        raise ModelError(f"[model] kind is {_short(kind)}: no module of parley's own is a model but {OWN_NETWORKS}'")
    if module.split(".")[0] in NO_NETWORKS:
        raise ModelError(
            f"[model] kind {_short(kind)} is Python's own or PyTorch's: name a function of a package that has your "
            "network"
        )
    return str(kind)


def _package(kind: str) -> str:
    return kind.split(":")[1].split(".")[0]


def _options(options: Any) -> dict[str, Any]:
    if not isinstance(options, Mapping) or not all(isinstance(each, str) and each.isidentifier() for each in options):
        raise ModelError(f"[model] options is {_short(options)}: give a table of build's keyword arguments")
    try:
        canonical_json(options)
    except (PrivacyError, TypeError, ValueError):
        raise ModelError(
            f"[model] options is {_short(options)}: use text, finite numbers, true or false, lists and tables"
        ) from None
    return {name: _listed(value) for name, value in options.items()}


def _listed(value: Any) -> Any:
    """Lists and tables of its own, that nobody else can change; a tuple is the list that a manifest makes of it."""
    if isinstance(value, Mapping):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


def _shape(shape: Any, schema: Schema) -> tuple[int, ...]:
    right = isinstance(shape, list | tuple) and 1 <= len(shape) <= MOST_AXES
    if not right or not all(type(each) is int and 1 <= each < 1 << 31 for each in shape):
        raise ModelError(f"[model] input is {_short(shape)}: give the shape of one record, such as [1, 28, 28]")
    if math.prod(shape) != schema.dimension:
        more = ", the intercept among them (a module has biases of its own: set intercept = false)"
        raise ModelError(
            f"[model] input = {list(shape)} is {math.prod(shape):,} numbers and a row of the schema has "
            f"{schema.dimension:,}{more if schema.intercept else ''}: make them equal"
        )
    return tuple(shape)


def _loss(loss: Any, target: str) -> str:
    if is_module(loss):
        return checked_kind(loss)
    fit = [name for name, kinds in LOSSES.items() if target in kinds]
    if loss not in fit:
        raise ModelError(
            f"[model] loss is {_short(loss)}: for a {target} target use {' or '.join(fit)}, or "
            "torch:package.module:function of the same package"
        )
    return str(loss)


def _digest(digest: Any) -> str | None:
    if digest is not None and not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        raise ModelError(f"[model] digest is {_short(digest)}: write what `parley model show` prints, sha256:…")
    return digest


def _probe(probe: Any) -> tuple[float, ...]:
    if not isinstance(probe, list | tuple) or len(probe) > MOST_PROBED:
        raise ModelError("[model] probe is no list of numbers: write what `parley model show` prints")
    for each in probe:
        if isinstance(each, bool) or not isinstance(each, int | float) or not abs(each) <= 1e30:
            raise ModelError(f"[model] probe has {_short(each)}: write what `parley model show` prints")
    return tuple(float(each) for each in probe)


def _reach(schema: Schema) -> Reach:
    """What each encoded column lies between, where columns differ and the schema says how; else what all do."""
    if isinstance(schema.features, tuple) and not getattr(schema, "transform", ()):
        each = [feature.reach for feature in schema.features for _ in range(feature.width)]
        found = tuple(each + [(1.0, 1.0)] * schema.intercept)
        if len(found) == schema.dimension:
            return found if len(set(found)) > 1 else found[:1]
    low, high = schema.integer_reach
    scale = 2.0**-schema.fraction_bits
    return ((low * scale, high * scale),)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
