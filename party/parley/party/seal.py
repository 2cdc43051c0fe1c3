"""The seal: that an operator has looked at the records, and at which, since when nothing of them has changed.

`parley schema check` reads the files once, compares them with the whole of schema.toml, and writes down the digests of
both. A party whose seal holds takes part in runs whatever the records hold; one whose seal is missing or broken waits
for its operator, whatever the manifest asks for. So neither what others hear of it nor when depends on a record: a run
is taken up after a look at the files' dates and sizes, and the records themselves are read after it has said so.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.learning.errors import DataError, PartyError
from parley.learning.fit import Fit, fit, population_rows
from parley.learning.holding import Holding, holding_bytes, holding_from_bytes
from parley.learning.readers import Data, read
from parley.party.settings import Settings
from parley.privacy.durable import replace_durably
from parley.privacy.ledger import Ledger
from parley.privacy.population import Identity

FORMAT = "parley seal 2"
"""Raised whenever cells are read in another way than before, or another word is missing by default: records that fitted
under the old reading might fail a later one, so the operator looks again. 2: NaN, nan, N/A and null count as empty."""
MOST_BYTES = 1 << 22
CHUNK = 1 << 20
Stamp = tuple[tuple[int, ...], ...]


class BrokenSealError(PartyError):
    """There is no seal, or it is not of these files; the message names a file and no record."""

    public = True


@dataclass(frozen=True)
class Seal:
    """What was looked at."""

    schema: str
    """SHA-256 of schema.toml."""
    files: tuple[str, ...]
    """SHA-256 of each data file, in the order of node.toml."""
    ledger: str
    """Under whose salt `identity` is."""
    identity: Identity
    """Whose records these are."""

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "schema": self.schema,
            "files": list(self.files),
            "ledger": self.ledger,
            "identity": self.identity.as_json(),
        }


@dataclass(frozen=True)
class Sealed:
    """What a seal that holds vouches for."""

    holding: Holding
    seal: Seal

    def read(self, files: Sequence[Path]) -> Data:
        """The sealed records: what is parsed is what was digested, or a DataError."""
        raw = [_content(path) for path in files]
        if tuple(hashlib.sha256(each).hexdigest() for each in raw) != self.seal.files:
            raise DataError("the files are not those that were sealed: run `parley schema check` again")
        return read(files, self.holding.layout, self.holding.targets[0].name, raw)


class Seals:
    """This node's seal, looked at again only when a file's date or size has changed. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._found: Sealed | str = "there is no seal yet"

    def stamp(self) -> Stamp:
        """Changes when the seal, the schema or the records do."""
        return tuple(_stat(path) for path in (self._settings.seal, self._settings.schema, *self._settings.files))

    def sealed(self) -> Sealed | None:
        """None while this node waits for its operator."""
        with self._lock:
            stamp = self.stamp()
            if stamp != self._stamp:
                try:
                    self._found = verified(self._settings)
                except PartyError as error:
                    self._found = str(error)
                self._stamp = stamp
            return self._found if isinstance(self._found, Sealed) else None

    @property
    def problem(self) -> str:
        """Why there is none, for this node's operator: no record's content."""
        return "" if isinstance(self._found, Sealed) else self._found


def verified(settings: Settings) -> Sealed:
    """The seal, against every byte of schema and records; a BrokenSealError names what differs."""
    seal = _read_seal(settings.seal)
    data = holding_bytes(settings.schema)
    if hashlib.sha256(data).hexdigest() != seal.schema:
        raise BrokenSealError(
            f"{settings.schema.name} was changed since it was sealed: run `parley schema check` again"
        )
    if len(seal.files) != len(settings.files):
        raise BrokenSealError("[data] files names other files than were sealed: run `parley schema check` again")
    for path, digest in zip(settings.files, seal.files, strict=True):
        if _digest(path) != digest:
            raise BrokenSealError(f"{path.name} was changed since it was sealed: run `parley schema check` again")
    return Sealed(holding_from_bytes(data), seal)


def check(settings: Settings) -> tuple[Fit, Holding, Data]:
    """Read the records and compare them with the whole schema file. What is found tells of records."""
    fitting, holding, data, _ = _looked_at(settings)
    return fitting, holding, data


def seal(settings: Settings, ledger: Ledger) -> Fit:
    """The same, and if everything fits, the seal, durable. LedgerRefusedError: the records are another population's.

    The identity is computed here, and not when a run is taken up: how long that takes is the records' business.
    """
    fitting, holding, data, digests = _looked_at(settings)
    if not fitting.fits:
        settings.seal.unlink(missing_ok=True)  # it was of other records, or of another schema
        return fitting
    identity = ledger.identity(population_rows(data, holding))
    ledger.require_own(settings.population, identity)
    _write(settings.seal, Seal(digests[0], digests[1:], ledger.mark, identity))
    return fitting


def _looked_at(settings: Settings) -> tuple[Fit, Holding, Data, tuple[str, ...]]:
    schema = holding_bytes(settings.schema)
    holding = holding_from_bytes(schema)
    raw = [_content(path) for path in settings.files]
    data = read(settings.files, holding.layout, holding.targets[0].name, raw)
    digests = tuple(hashlib.sha256(each).hexdigest() for each in (schema, *raw))
    return fit(data, holding), holding, data, digests


def _read_seal(path: Path) -> Seal:
    try:
        with path.open("rb") as file:
            body = json.loads(file.read(MOST_BYTES))
        if body["format"] != FORMAT:
            raise BrokenSealError(f"{path.name} is of another version of parley: run `parley schema check` again")
        return Seal(body["schema"], tuple(body["files"]), body["ledger"], Identity.from_json(body["identity"]))
    except FileNotFoundError:
        raise BrokenSealError("the records were not sealed yet: run `parley schema check`") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise BrokenSealError(f"{path.name} cannot be read: run `parley schema check` again") from None


def _write(path: Path, made: Seal) -> None:
    """Whole or not at all, mode 600, on disk when it returns."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_durably(path, json.dumps(made.as_json()))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}): correct [data] files, or its mode") from None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise BrokenSealError(f"{path.name} cannot be read ({error.strerror}): correct [data] files") from None
    return digest.hexdigest()


def _stat(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
