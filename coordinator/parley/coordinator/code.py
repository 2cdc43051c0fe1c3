"""A user's own module at a coordinator, which makes the first model with it and evaluates each on public records.

Under this node's policy as anywhere: what [code] of policy.toml does not name with its digest is not run here either.
"""

from collections.abc import Mapping
from pathlib import Path

from parley.coordinator.errors import RunFailedError
from parley.federation.code import named_code
from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.federation.policy import CoordinatorPolicy
from parley.federation.policy_file import read_policy
from parley.learning.models import Model
from parley.learning.schema import Schema
from parley.models.admitted import admitted
from parley.models.apart import Apart
from parley.models.extractor_apart import ExtractorsApart, extractors_of
from parley.models.named import NamedModule
from parley.models.registry import model_of


def opened(manifest: Manifest, schema: Schema, model: Model, policy: Path | None) -> Apart | None:
    """The module's process; None for a built-in model. A RunFailedError says why there is none."""
    try:
        return admitted(manifest, schema, model, _allowed(policy))
    except ManifestError as error:
        raise RunFailedError(str(error)) from None


def bound(model: Model, apart: Apart | None) -> Model:
    """The model with its numbers."""
    return model.bound(apart.model()) if apart is not None and isinstance(model, NamedModule) else model


def opened_extractors(manifest: Manifest, schema: Schema, policy: Path | None) -> ExtractorsApart | None:
    """What computes a user's own features of the public set; None where the manifest names no such code."""
    try:
        return extractors_of(manifest, schema, _allowed(policy))
    except ManifestError as error:
        raise RunFailedError(str(error)) from None


def require_code(manifest: Manifest, policy: Path) -> None:
    """Before anybody is charged: that this coordinator can run what the manifest names."""
    if not any(named_code(manifest)):
        return
    schema, model = model_of(manifest)
    for found in (opened_extractors(manifest, schema, policy), opened(manifest, schema, model, policy)):
        if found is not None:
            found.close()


def _allowed(policy: Path | None) -> Mapping[str, str]:
    found = read_policy(policy) if policy is not None and policy.exists() else None
    return found.code if isinstance(found, CoordinatorPolicy) else {}
