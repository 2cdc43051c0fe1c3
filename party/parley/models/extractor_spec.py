"""A frozen extractor by its name and digest, and who runs it: this process, or one of its own. Imports no torch.

Its digest is over what it is told and its package's exact bytes, weights among them, as a module's is
(`parley.models.module_spec`). Nothing of it is imported before name and digest are allowed.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.code import PREFIX
from parley.learning.errors import ModelError, SchemaError
from parley.learning.features import Extract
from parley.learning.schema import Schema
from parley.learning.transforms import Extractor
from parley.models.module_spec import checked_kind
from parley.models.package_files import PackageFiles
from parley.privacy.canonical import canonical_json

Singles = NDArray[np.float32]
HEADER = b"parley extractor 1\n"


def extractor_digest(transform: Extractor, files: PackageFiles | None = None) -> str:
    """Of the package as it lies here, or of bytes that were read before; reads them and imports nothing."""
    module = checked_kind(transform.kind).removeprefix(PREFIX).split(":")[0]
    files = files or PackageFiles.find(module)
    files.require_within(module)
    told = {"kind": transform.kind, "shape": list(transform.shape), "columns": transform.columns}
    found = hashlib.sha256(HEADER + canonical_json(told).encode("ascii") + b"\n" + files.canonical)
    return f"sha256:{found.hexdigest()}"


def with_code_digests(schema: Schema) -> Schema:
    """With the digest of what is installed here, for every extractor of a person's own study that has none yet."""
    if not any(isinstance(each, Extractor) and not each.digest for each in schema.transform):
        return schema
    known = [
        replace(each, digest=each.digest or extractor_digest(each)) if isinstance(each, Extractor) else each
        for each in schema.transform
    ]
    return replace(schema, transform=tuple(known))


def extractors_of(schema: Schema) -> list[Extractor]:
    """All of a schema's transforms that are somebody's code."""
    return [each for each in schema.transform if isinstance(each, Extractor)]


def require_extractor(transform: Extractor) -> None:
    """A ModelError unless the installed package's bytes are those that the digest is of. Imports nothing."""
    found = extractor_digest(transform)
    if transform.digest and found != transform.digest:
        raise ModelError(
            f"{transform.kind} as it is installed here is {found}, and {transform.digest} was agreed on: install the "
            "package that was agreed on, or write this digest"
        )


def extractor_to_json(transform: Extractor) -> dict[str, Any]:
    """For the process that runs it; `extractor_from_json` is its inverse."""
    return {**vars(transform), "shape": list(transform.shape)}


def extractor_from_json(body: Mapping[str, Any]) -> Extractor:
    return Extractor(**{**body, "shape": tuple(body["shape"])})


class Run:
    """An `Extract` that opens each extractor when it is first asked for."""

    def __init__(self, make: Callable[[Extractor], Callable[[Singles], Singles]]) -> None:
        self._make = make
        self._open: dict[Extractor, Callable[[Singles], Singles]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """A model that is pickled carries what may run, never what has been opened."""
        return {**self.__dict__, "_open": {}}

    def __call__(self, transform: Extractor, values: Singles) -> Singles:
        if transform not in self._open:
            self._open[transform] = self._make(transform)
        return self._open[transform](values)


def run_here(allowed: Collection[str] | None = None) -> Extract:
    """Imports and runs the code HERE: for a person's own process only.

    `allowed` are the names that may be; None where the person wrote the names, as in a study.
    """
    return Run(partial(_opened_here, allowed=allowed))


def _opened_here(transform: Extractor, allowed: Collection[str] | None) -> Callable[[Singles], Singles]:
    if allowed is not None and transform.kind not in allowed:
        raise SchemaError(f"{transform.kind} is code that nobody allowed here: allow it by name if you trust it")
    with suppress(ModuleNotFoundError):
        from parley.models.extractor import Opened

        return Opened.of(transform)
    raise ModelError(f"{transform.kind} needs PyTorch: install parley-federation[torch]")
