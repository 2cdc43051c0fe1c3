"""The local records against a manifest. What goes wrong here may depend on records, so details stay on this machine.

Imports `parley`, `privacy` and `party` only.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName

from mpc.tables import FORMATS
from party.client.errors import RefusedRunError, UnfitRecordsError, refused
from party.client.settings import Settings, Vocabulary
from party.contributor import Contributor, Encoding
from party.errors import PartyError, QueryError
from party.models import Model
from party.readers import Dense, Sparse, Table, read
from party.records import Records, encode
from party.schema import Schema
from privacy.randomness import SystemRandomness


@dataclass(frozen=True)
class Understood:
    """What a manifest names, as this installation knows it. Follows from public facts alone."""

    schema: Schema
    model: Model
    encoding: Encoding


def understand(manifest: Manifest, vocabulary: Vocabulary) -> Understood:
    """Schema, model and lattices of a manifest; a ManifestError names what does not fit together."""
    schema, model = vocabulary(manifest)
    if model.dimension != manifest.model.dimension:
        raise ManifestError(
            "model.dimension",
            f"is {manifest.model.dimension:,} and a {manifest.model.kind} model on this schema has "
            f"{model.dimension:,} parameters: write that",
        )
    scale_bits = FORMATS[manifest.noise.precision].scale_bits
    try:
        most = Encoding.of(manifest.mechanism, scale_bits, model.largest_limit, manifest.noise.parts).fraction_bits
    except QueryError as error:
        raise ManifestError("noise.fraction_bits", str(error)) from None
    if manifest.noise.fraction_bits > most:
        raise ManifestError(
            "noise.fraction_bits", f"is {manifest.noise.fraction_bits} and this run has room for {most}: lower it"
        )
    noise = manifest.noise
    return Understood(schema, model, Encoding(manifest.mechanism, noise.fraction_bits, scale_bits, noise.parts))


class Shelf:
    """The records, read once for all runs that are open with one schema."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, Records] = WeakValueDictionary()

    def records(self, manifest: Manifest, schema: Schema) -> Records:
        """Read and encoded; a PartyError with row and column, for local eyes, where the schema does not fit."""
        key = manifest.schema.text
        with self._lock:
            found = self._held.get(key)
            if found is None:
                found = self._held[key] = encode(read(self._settings.files, schema), schema)
            return found

    def contributor(self, manifest: Manifest, understood: Understood, node: NodeName) -> Contributor:
        """This party's side of the run; UnfitRecordsError unless the records are as the manifest counts them."""
        try:
            records = self.records(manifest, understood.schema)
            return Contributor(node.name, records, understood.model, understood.encoding, SystemRandomness())
        except (PartyError, OSError) as error:
            raise UnfitRecordsError(str(error)) from None

    def rows(self, schema: Schema) -> Iterator[bytes]:
        """One canonical byte string per row of the files, whatever the schema makes of them: whose data this is."""
        return canonical_rows(read(self._settings.files, schema))


def canonical_rows(data: Table | Sparse | Dense) -> Iterator[bytes]:
    """For the ledger's memory of which records are which population's."""
    if isinstance(data, Table):
        names = sorted(data.columns)
        for cells in zip(*(data.columns[name] for name in names), strict=True):
            yield "\x1f".join("" if cell is None else str(cell).strip() for cell in cells).encode()
    elif isinstance(data, Sparse):
        for row, label in enumerate(data.labels):
            part = slice(data.starts[row], data.starts[row + 1])
            yield label.encode() + data.columns[part].tobytes() + data.values[part].tobytes()
    else:
        for values, label in zip(data.values, data.labels, strict=True):
            yield values.tobytes() + label.tobytes()


def unfit() -> RefusedRunError:
    """All that others are told of records that do not fit, for the cause may be in them."""
    return refused(
        "policy",
        "this party's records are not ready for the manifest",
        "its operator finds the cause with `parley party check`",
    )
