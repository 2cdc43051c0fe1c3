"""From a module that a manifest names to its process: allowed, the very bytes, opened on public inputs, in this order.

The node's policy names it with its digest, or nothing of it is looked at; the installed package's bytes have that
digest, or nothing of it is imported; its process opens and checks it before there is any record in it. What a node says
of a module that it does not run follows from the manifest, its policy, the package and public inputs.
"""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec

from parley.federation.code import named_code, unlisted
from parley.federation.errors import ManifestError
from parley.federation.extras import install
from parley.federation.fields import built
from parley.federation.manifest import Manifest
from parley.learning.errors import ModelError
from parley.learning.models import Model
from parley.learning.schema import Schema
from parley.learning.transforms import Extractor
from parley.models.apart import Apart
from parley.models.child import ModuleLostError, ModuleRefusedError
from parley.models.extractor_spec import require_extractor
from parley.models.module_spec import ModuleSpec, digest_of
from parley.models.named import NamedModule
from parley.models.package_files import PackageFiles


def require_allowed(manifest: Manifest, allowed: Mapping[str, str]) -> None:
    """A ManifestError unless each name that the manifest has is allowed, with its digest."""
    for field, message in unlisted(manifest, allowed):
        raise ManifestError(field, message)


def require_installed(spec: ModuleSpec, outputs: int) -> None:
    """A ManifestError unless the installed package's bytes are those that the digest is of. Imports nothing."""
    try:
        found = digest_of(spec, outputs)
    except ModelError as error:
        raise ManifestError("model.kind", str(error)) from None
    if found != spec.digest:
        raise ManifestError(
            "model.digest",
            f"is {spec.digest} and what is installed here has {found}: install the same version of the package, or "
            "draft the manifest with this one",
        )


def admitted(manifest: Manifest, schema: Schema, model: Model, allowed: Mapping[str, str]) -> Apart | None:
    """The module's process, checked and without a record; None for a built-in model. A ManifestError says why not."""
    if not isinstance(model, NamedModule):
        return None
    require_allowed(manifest, allowed)
    require_installed(model.spec, schema.outputs)
    try:
        apart = Apart.start(model.spec, schema.outputs)
    except ModuleRefusedError as error:
        raise ManifestError("model.kind", str(error)) from None
    except ModuleLostError as error:
        raise ManifestError("model.kind", f"{error}: try it with `parley model check`") from None
    if apart.dimension != manifest.model.dimension:
        apart.close()
        raise ManifestError(
            "model.dimension",
            f"is {manifest.model.dimension:,} and the module has {apart.dimension:,} parameters: write that",
        )
    return apart


def require_here(manifest: Manifest, schema: Schema, model: Model, allowed: Mapping[str, str]) -> str:
    """The same without running any of it, for `parley doctor`: what stands here of a run's code."""
    named = [code.name for code in named_code(manifest)]
    if not named:
        return "no code but parley's own"
    require_allowed(manifest, allowed)
    for place, each in enumerate(schema.transform):
        if isinstance(each, Extractor):
            built(f"schema.transform[{place}].digest", partial(require_extractor, each))
    if isinstance(model, NamedModule):
        require_installed(model.spec, schema.outputs)
    require_torch()
    return f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} allowed, and installed here with that digest"


def require_torch() -> None:
    """A ManifestError where a module could not be opened; imports nothing."""
    if find_spec("torch") is None:
        raise ManifestError("model.kind", f"is of PyTorch: {install('torch')}")


def package_of(name: str) -> str:
    """What is installed for a name of a policy's [code]; a ModelError where nothing is."""
    found = PackageFiles.find(name.split(":")[1])
    return f"{found.name} is installed, {len(found.files)} file{'s' if len(found.files) > 1 else ''}"
