"""A manifest against what this institution says of its records, and the records themselves.

The first reads two documents; what goes wrong with the second may depend on records, so details stay on this machine.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from parley.federation.errors import ManifestError
from parley.federation.kinds import programme_of
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.learning.contributor import Contributor, Encoding
from parley.learning.errors import PartyError, QueryError
from parley.learning.exclusion import NOBODY, ExclusionList, null_rows
from parley.learning.feature_cache import FeatureCache, erase
from parley.learning.features import Extract, unknown_code
from parley.learning.holding import Holding, judge
from parley.learning.models import Model
from parley.learning.records import Records, encode
from parley.learning.rows import integer_type
from parley.learning.schema import Schema
from parley.models.apart import Apart
from parley.models.registry import model_of
from parley.mpc.errors import MpcError
from parley.mpc.tables import FORMATS
from parley.node.data_sets import DataSet
from parley.party.errors import RefusedRunError, UnfitRecordsError, refused
from parley.party.outbox import ENDED, LEFT, REFUSED, SETTLED
from parley.party.seal import Sealed, Seals
from parley.party.settings import Settings
from parley.privacy.errors import PrivacyError
from parley.privacy.randomness import SystemRandomness

LARGEST_SHARE = 0.5
"""Of a machine's memory, that one run's features may take."""
CONTAINERS_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Understood:
    """What a manifest names, as this installation knows it. Follows from public facts alone."""

    schema: Schema
    model: Model
    encoding: Encoding


def understand(manifest: Manifest) -> Understood:
    """Schema, model and lattices of a manifest; a ManifestError names what does not fit together."""
    schema, model = model_of(manifest)
    if programme_of(manifest.algorithm.name, manifest.releases) is None:
        raise ManifestError(
            "algorithm.name",
            f"is {manifest.algorithm.name!r}, of which this installation knows no run of {manifest.releases:,} rounds: "
            "draft the manifest again",
        )
    scale_bits = FORMATS[manifest.noise.precision].scale_bits
    try:
        most = Encoding.of(manifest.mechanism, scale_bits, model.largest_limit, manifest.noise.parts).fraction_bits
    except (QueryError, MpcError, PrivacyError) as error:
        raise ManifestError("noise.fraction_bits", str(error)) from None
    if manifest.noise.fraction_bits > most:
        raise ManifestError(
            "noise.fraction_bits", f"is {manifest.noise.fraction_bits} and this run has room for {most}: lower it"
        )
    noise = manifest.noise
    return Understood(schema, model, Encoding(manifest.mechanism, noise.fraction_bits, scale_bits, noise.parts))


class Shelf:
    """The sealed records, read once for all runs that are open with one schema on one data set."""

    def __init__(self, settings: Settings) -> None:
        self._lock, self._settings = threading.Lock(), settings
        self._held: WeakValueDictionary[str, Records] = WeakValueDictionary()
        self.seals = {each.name: Seals(settings, each) for each in settings.data}
        """By the name of the data set."""

    def records(
        self,
        manifest: Manifest,
        schema: Schema,
        data: DataSet,
        sealed: Sealed,
        extract: Extract = unknown_code,
        excluded: ExclusionList = NOBODY,
    ) -> Records:
        """Read and encoded; a PartyError, for local eyes, where the files are not those that were sealed.

        Whatever a run reads of this party's records comes from here, so that whoever is excluded is excluded here.
        """
        mark = hashlib.sha256(excluded.text().encode()).hexdigest()
        key = f"{data.name} {sealed.seal.files} {sealed.seal.schema} {manifest.schema.text} {mark}"
        with self._lock:
            found = self._held.get(key)
            if found is None:
                raw, holding = sealed.read(data), sealed.holding
                found = self._held[key] = encode(
                    raw,
                    schema,
                    holding.layout,
                    extract=extract,
                    cache=self.features(manifest),
                    null=null_rows(raw, holding, excluded.names) if excluded.names else None,
                )
            return found

    def features(self, manifest: Manifest) -> FeatureCache:
        """What is kept of this run's transforms, for as long as it is open."""
        return FeatureCache(self._settings.features_of(manifest.digest))

    def noted(self, manifest: Manifest, state: str) -> None:
        """Nothing that was computed for a run outlives it."""
        if state in (REFUSED, LEFT, ENDED, SETTLED):
            self.features(manifest).erase()
            self._settings.exclusions_of(manifest.digest).unlink(missing_ok=True)

    def keep_features(self, manifests: Iterable[bytes]) -> None:
        """Erases those of every run but these, and whom it excluded."""
        kept = {digest.hex() for digest in manifests}
        for folder in self._settings.features.glob("*"):
            if folder.name not in kept:
                erase(folder)
        for path in self._settings.exclusions_of(b"").parent.glob("*.txt"):
            if path.stem not in kept:
                path.unlink(missing_ok=True)

    def contributor(
        self,
        manifest: Manifest,
        understood: Understood,
        node: NodeName,
        data: DataSet,
        sealed: Sealed,
        module: Apart | None = None,
        extract: Extract | None = None,
        excluded: ExclusionList = NOBODY,
    ) -> Contributor:
        """This party's side of the run; UnfitRecordsError unless the records are those that it was admitted for."""
        try:
            require_equal(sealed.holding, manifest, understood, node)
            records = self.records(manifest, understood.schema, data, sealed, extract or unknown_code, excluded)
            if module is not None:
                module.hold(records, manifest.deadline_seconds)
            return Contributor(
                node.name, records, understood.model, understood.encoding, SystemRandomness(), engine=module
            )
        except Exception as error:
            # Whatever reading runs into: this run is over for this party, and it says the same of every cause.
            raise UnfitRecordsError(str(error) if isinstance(error, PartyError) else type(error).__name__) from None


def data_set_of(settings: Settings, manifest: Manifest, node: NodeName) -> DataSet:
    """Which of this party's records a run is about; a ManifestError where it has no such data set.

    By node.toml and the manifest alone. The names are for people to agree on, and not listed to whoever asks.
    """
    named = manifest.data_set_of(node.name)
    if (found := settings.chosen(named)) is not None:
        return found
    if named:
        raise ManifestError("parties", f"say that {node.name}'s data set is {named!r}, which it does not have: ask it")
    raise ManifestError("parties", f"do not say which data set of {node.name} is meant, and it has several: ask it")


def require_equal(holding: Holding, manifest: Manifest, understood: Understood, node: NodeName) -> None:
    """A ManifestError where the manifest's schema is not this institution's. Reads documents and no record."""
    if (found := judge(holding, understood.schema)) is not None:
        raise ManifestError(*found)
    if node.name in manifest.parties:
        units = manifest.mechanism.sampler(node.name, 0).units
        if units != holding.units:
            raise ManifestError(
                "parties", f"count {units:,} units of {node.name} and it has {holding.units:,}: write that"
            )
    require_room(understood.schema, holding.units, memory_bytes())


def require_room(schema: Schema, rows: int, memory: int) -> None:
    """A ManifestError where the features that a run names would not fit this machine: how many there are of each record
    is for whoever writes manifests to say, and they are kept in memory. `rows` are public: of units, at least one each.
    """
    size = rows * schema.dimension * integer_type(schema.integer_reach).itemsize if schema.transform else 0
    if size > LARGEST_SHARE * memory:
        raise ManifestError(
            "schema.transform",
            f"makes {schema.dimension:,} features of each record, {size / 2**30:,.0f} GiB of this party's, which its "
            "machine has no room for: pool them, use fewer scales or angles, or lower bits",
        )


def memory_bytes() -> int:
    """Of this machine, or what its container may use of it."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # there is no such limit
        found = min(found, int(CONTAINERS_LIMIT.read_text()))
    return found


def moved() -> RefusedRunError:
    """All that others are told where a run's records are not those that it was charged for."""
    return refused("policy", "this party takes no further part", "its operator finds the cause with `parley doctor`")


def unreadable() -> RefusedRunError:
    """All that others are told where sealed records cannot be read after all: the same for every run and cause."""
    return refused(
        "policy", "this party cannot go on with its records", "its operator finds the cause with `parley schema check`"
    )
