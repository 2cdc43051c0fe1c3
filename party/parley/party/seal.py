"""The seal: that an operator has looked at the records, and at which, since when nothing of them has changed.

`parley schema check` reads the files once, compares them with the whole of schema.toml, and writes down the digests of
both. A party whose seal holds takes part in runs whatever the records hold; one whose seal is missing or broken waits
for its operator, whatever the manifest asks for. So neither what others hear of it nor when depends on a record: a run
is taken up after a look at the files' dates and sizes, and the records themselves are read after it has said so.
"""

import hashlib
import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.learning.errors import DataError, PartyError, SchemaError
from parley.learning.exclusion import read_list
from parley.learning.fit import Fit, fit, population_rows
from parley.learning.holding import CSV, Holding, Layout, holding_bytes, holding_from_bytes
from parley.learning.readers import Data, read
from parley.node.data_sets import DataSet
from parley.party.settings import Settings
from parley.privacy.durable import replace_durably
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.ledger import Ledger
from parley.privacy.population import Identity

FORMAT = "parley seal 2"
"""Raised whenever cells are read in another way than before, or another word is missing by default: records that fitted
under the old reading might fail a later one, so the operator looks again. 2: NaN, nan, N/A and null count as empty, and
a seal says whose records they are."""
MOST_BYTES = 1 << 22
CHUNK = 1 << 20
Stamp = tuple[tuple[int, ...], ...]


class BrokenSealError(PartyError):
    """There is no seal, or it is not of these files; the message names a file and no record."""

    public = True


@dataclass(frozen=True)
class Taken:
    """When records were taken from a database, and by which query."""

    at: float
    """Seconds since 1970."""
    query: str
    """Its SHA-256."""


@dataclass(frozen=True)
class Seal:
    """What was looked at."""

    schema: str
    """SHA-256 of schema.toml."""
    files: tuple[str, ...]
    """SHA-256 of each data file, in the order of node.toml."""
    population: str
    """Whose records they are, as node.toml said."""
    ledger: str
    """Under whose salt `identity` is."""
    identity: Identity
    """Whose records these are."""
    taken: Taken | None = None
    """When a query gave them; None of files."""

    def as_json(self) -> dict[str, Any]:
        body = {
            "format": FORMAT,
            "schema": self.schema,
            "files": list(self.files),
            "population": self.population,
            "ledger": self.ledger,
            "identity": self.identity.as_json(),
        }
        return body if self.taken is None else body | {"taken": {"at": self.taken.at, "query": self.taken.query}}


@dataclass(frozen=True)
class Sealed:
    """What a seal that holds vouches for."""

    holding: Holding
    seal: Seal

    def read(self, data: DataSet) -> Data:
        """The sealed records: what is parsed is what was digested, or a DataError."""
        raw = [_content(path) for path in data.files]
        if tuple(hashlib.sha256(each).hexdigest() for each in raw) != self.seal.files:
            raise DataError("the files are not those that were sealed: run `parley schema check` again")
        return read(data.files, self.holding.layout, self.holding.targets[0].name, raw)


class Seals:
    """One data set's seal, looked at again only when a file's date or size has changed. Threads may share it."""

    def __init__(self, settings: Settings, data: DataSet) -> None:
        self._path, self._data = settings.seal(data), data
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._found: Sealed | str = "there is no seal yet"

    def stamp(self) -> Stamp:
        """Changes when the seal, the schema or the records do."""
        listed = () if self._data.excluded is None else (self._data.excluded,)
        return tuple(stat_of(path) for path in (self._path, self._data.schema, *self._data.files, *listed))

    def sealed(self) -> Sealed | None:
        """None while this node waits for its operator."""
        with self._lock:
            stamp = self.stamp()
            if stamp != self._stamp:
                try:
                    self._found = found = verified(self._path, self._data)
                    require_list(self._data, found)
                except PartyError as error:
                    self._found = str(error)
                self._stamp = stamp
            return self._found if isinstance(self._found, Sealed) else None

    @property
    def problem(self) -> str:
        """Why there is none, for this node's operator: no record's content."""
        return "" if isinstance(self._found, Sealed) else self._found


def verified(path: Path, data: DataSet) -> Sealed:
    """The seal, against every byte of schema and records; a BrokenSealError names what differs."""
    seal = _read_seal(path)
    schema = holding_bytes(data.schema)
    if hashlib.sha256(schema).hexdigest() != seal.schema:
        raise BrokenSealError(f"{data.schema.name} was changed since it was sealed: run `parley schema check` again")
    if seal.population != data.population:
        raise BrokenSealError(
            f"{data.called}: sealed as those of population {seal.population}, and node.toml says population "
            f"{data.population}: run `parley schema check` again"
        )
    if len(seal.files) != len(data.files):
        raise BrokenSealError("[data] files names other files than were sealed: run `parley schema check` again")
    for file, digest in zip(data.files, seal.files, strict=True):
        if _digest(file) != digest:
            raise BrokenSealError(f"{file.name} was changed since it was sealed: run `parley schema check` again")
    return Sealed(_holding(data, schema), seal)


def require_list(data: DataSet, sealed: Sealed) -> None:
    """A DataError where a list of whom to exclude is named and cannot be gone by: no run begins without it."""
    if data.excluded is not None:
        read_list(data.excluded).require_of(sealed.holding, sealed.seal.files, data.excluded.name)


def taken(path: Path) -> Taken | None:
    """When the sealed records were taken from a database; None without a seal, and of files."""
    try:
        return _read_seal(path).taken
    except BrokenSealError:
        return None


def seal(settings: Settings, data: DataSet, ledger: Ledger, when: Taken | None = None) -> Fit:
    """Compare the records with the whole schema file; if everything fits, the seal, durable. LedgerRefusedError: the
    records are another population's. What is found tells of records.

    The identity is computed here, and not when a run is taken up: how long that takes is the records' business.
    """
    schema = holding_bytes(data.schema)
    holding = _holding(data, schema)
    raw = [_content(path) for path in data.files]
    found = read(data.files, holding.layout, holding.targets[0].name, raw)
    fitting = fit(found, holding)
    if not fitting.fits:
        settings.seal(data).unlink(missing_ok=True)  # it was of other records, or of another schema
        return fitting
    identity = ledger.identity(population_rows(found, holding))
    ledger.require_own(data.population, identity, settings.populations)
    _require_other_people(settings, data, ledger, identity)
    digests = [hashlib.sha256(each).hexdigest() for each in (schema, *raw)]
    _write(settings.seal(data), Seal(digests[0], tuple(digests[1:]), data.population, ledger.mark, identity, when))
    return fitting


def _require_other_people(settings: Settings, data: DataSet, ledger: Ledger, identity: Identity) -> None:
    """Refused where the seal of another data set, of another population, is of the same people.

    The ledger would say so as well, but only once one of the two was charged: then a run on the one would change what
    a run on the other is answered, and a coordinator would learn from it who is in both.
    """
    for path in sorted(settings.state.glob("seal*.json")):  # also of one that is out of node.toml, and may come back
        try:
            known = _read_seal(path)
        except BrokenSealError:
            continue  # it is compared with this one when it is sealed itself
        if path == settings.seal(data) or known.population == data.population or known.ledger != ledger.mark:
            continue
        if known.identity.same_people(identity):
            raise LedgerRefusedError(
                f"these rows are those that {path.name} is about, of population {known.population}: give both one "
                "population, or remove that seal if its records are gone for good"
            )


def _holding(data: DataSet, schema: bytes) -> Holding:
    """What schema.toml says; but what a query gave looks as `parley schema check` wrote it."""
    holding = holding_from_bytes(schema, data.schema.name)
    if data.query is None:
        return holding
    due = Layout("jsonl", missing=holding.layout.missing, days=holding.layout.days)
    if holding.layout not in (due, replace(due, format=CSV.format)):  # where nothing is said it is CSV
        raise SchemaError(
            f"{data.schema.name} says what a file looks like, and a query gives these records: leave out format, "
            "delimiter, header, columns, skip and encoding"
        )
    return replace(holding, layout=due)


def _read_seal(path: Path) -> Seal:
    try:
        with path.open("rb") as file:
            body = json.loads(file.read(MOST_BYTES))
        if body["format"] != FORMAT:
            raise BrokenSealError(f"{path.name} is of another version of parley: run `parley schema check` again")
        identity, last = Identity.from_json(body["identity"]), body.get("taken")
        when = Taken(float(last["at"]), str(last["query"])) if last else None
        return Seal(body["schema"], tuple(body["files"]), body["population"], body["ledger"], identity, when)
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


def stat_of(path: Path) -> tuple[int, ...]:
    """By which a change of a file is noticed; nothing where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
