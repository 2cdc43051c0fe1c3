"""Patients who objected: a list beside the records, which takes effect between runs and never leaves this machine.

`[data] excluded` in node.toml names it. Whoever is on it counts for nothing in every run that begins afterwards: the
declared number of units stays, sampling stays, and their part of every answer is zero (`parley.learning.records`). A
run keeps the list that it began with, also over a restart; for one that is under way the operator withdraws. How many
are on the list, and who, is in no trail, no log, no report and no answer.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from parley.federation.manifest import Manifest
from parley.learning.errors import DataError, PartyError
from parley.learning.exclusion import (
    NOBODY,
    NUMBERS,
    ExclusionList,
    checked,
    files_mark,
    line_of,
    list_bytes,
    matched,
    missing,
    parsed,
    read_list,
)
from parley.node.data_sets import DataSet, state_file
from parley.node.errors import NodeError
from parley.party.books import states_of
from parley.party.outbox import JOINED
from parley.party.seal import Sealed, verified
from parley.party.settings import Settings
from parley.privacy.durable import replace_durably

MOST_SHOWN = 20
END = "# names in all: "
"""Begins the last line of a list that is kept for a run."""


@dataclass(frozen=True)
class Excluded:
    """What a list means for one data set. For this machine's operator alone."""

    data_set: str
    file: str
    """Empty where node.toml names none."""
    listed: int = 0
    matched: int = 0
    """How many units of privacy it takes out."""
    missing: tuple[str, ...] = ()
    """On the list and in no record, at most MOST_SHOWN."""
    missing_count: int = 0
    problem: str = ""
    """Why no run begins."""

    @property
    def summary(self) -> str:
        """One sentence; nothing of it leaves this machine."""
        if self.problem:
            return self.problem
        found = f"{self.matched:,} of {self.listed:,} in {self.file} are in the records and count for nothing"
        if not self.missing_count:
            return found
        more = ", …" if self.missing_count > len(self.missing) else ""
        return f"{found}; {self.missing_count:,} were not found: {', '.join(self.missing)}{more}"


def exclusions_of(settings: Settings) -> list[Excluded]:
    """Of each data set that has a list. Reads the records, once for each list that there was."""
    return [excluded_of(settings, data) for data in settings.data if data.excluded is not None]


def exclude(settings: Settings, identifiers: Sequence[str], data_set: str = "") -> Excluded:
    """Lines that are on the disk when this returns; those that are there already are not written twice."""
    data = settings.chosen(data_set)
    if data is None:
        known = ", ".join(each.name for each in settings.data)
        raise NodeError(f"no data set {data_set!r} in node.toml: give one of {known}")
    if data.excluded is None:
        table = f"the [[data]] of {data.name}" if data.name else "[data]"
        raise NodeError(f'no list is named: write excluded = "excluded.txt" into {table} of node.toml')
    sealed, new = verified(settings.seal(data), data), checked(identifiers)
    held = read_list(data.excluded) if data.excluded.exists() else NOBODY
    head = ""
    if sealed.holding.unit is None:
        if wrong := [each for each in new if not each.isdecimal() or each != str(int(each)) or int(each) < 1]:
            raise DataError(f"{wrong[0][:40]!r} is no record's number: without a unit column the first record is 1")
        held.require_of(sealed.holding, sealed.seal.files, data.excluded.name)
        mark = files_mark(sealed.seal.files)
        head = "" if held.of == mark else f"{NUMBERS}{mark}\n"
    _append(data.excluded, head, [line_of(each) for each in dict.fromkeys(new) if each not in held.names])
    return excluded_of(settings, data)


def in_effect(settings: Settings, data: DataSet, sealed: Sealed, manifest: Manifest, charged: bool) -> ExclusionList:
    """What a run goes by: the list as it was when the run began, which is kept until it is over.

    A charged run of which nothing was kept began before there was a list; one that now names a list is left, for its
    answers must not count somebody who has objected since, nor change between two rounds.
    """
    path = settings.exclusions_of(manifest.digest)
    if charged:
        if path.exists():
            return _kept(path)
        if data.excluded is None:
            return NOBODY
        raise DataError("the list that this run began with is gone: withdraw from the run")
    found = NOBODY
    if data.excluded is not None:
        raw = list_bytes(data.excluded)
        found = parsed(raw, data.excluded.name)
        _require_last_line(raw, data.excluded.name)
        found.require_of(sealed.holding, sealed.seal.files, data.excluded.name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_durably(path, f"{found.text()}{END}{len(found.names)}\n")
    return found


def _kept(path: Path) -> ExclusionList:
    """What was kept for a run, whole: whoever a cut has taken off it would count from then on."""
    raw = list_bytes(path)
    found = parsed(raw, path.name)
    if not raw.endswith(f"{END}{len(found.names)}\n".encode()):
        raise DataError("the list that this run began with is not whole any more: withdraw from the run")
    return found


def _require_last_line(raw: bytes, name: str) -> None:
    """A file that is being written, or was cut, mostly ends within a line."""
    if raw and not raw.endswith(b"\n"):
        raise DataError(f"{name} does not end with a whole line, as if it were still being written: end its last line")


def under_way(settings: Settings) -> list[str]:
    """Runs that go on with the list they began with."""
    return sorted(held.run for held in states_of(settings) if held.state == JOINED)


def _append(path: Path, head: str, lines: list[str]) -> None:
    """At its end, whatever an editor left there. A list of numbers that says nothing of files gets its first line."""
    old = list_bytes(path).decode("utf-8-sig") if path.exists() else ""
    if not head and not lines:
        return
    if old and not old.endswith("\n"):
        old += "\n"
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    text = head + old + "".join(f"{line}\n" for line in lines)
    parsed(text.encode(), path.name)
    replace_durably(path, text, lambda handle: os.fchmod(handle, mode & 0o700))


def excluded_of(settings: Settings, data: DataSet, keep: bool = True) -> Excluded:
    """Of one that has a list. Without `keep` no file of this machine is written."""
    assert data.excluded is not None
    name = data.excluded.name
    try:
        raw = list_bytes(data.excluded)
        held = parsed(raw, name)
        _require_last_line(raw, name)
    except PartyError as error:
        return Excluded(data.name, name, problem=str(error))
    try:
        sealed = verified(settings.seal(data), data)
        held.require_of(sealed.holding, sealed.seal.files, name)
    except PartyError as error:
        return Excluded(data.name, name, len(held.names), problem=str(error))
    key = hashlib.sha256("\n".join((*sealed.seal.files, sealed.seal.schema, str(raw))).encode()).hexdigest()
    kept = state_file(settings.state, data.name, "excluded", ".json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        body = json.loads(kept.read_bytes())
        if body.pop("key") == key:
            return Excluded(**{**body, "missing": tuple(body["missing"])})
    read = sealed.read(data)
    lost = missing(read, sealed.holding, held.names)
    found = Excluded(
        data_set=data.name,
        file=name,
        listed=len(held.names),
        matched=matched(read, sealed.holding, held.names),
        missing=tuple(lost[:MOST_SHOWN]),
        missing_count=len(lost),
    )
    if keep:
        replace_durably(kept, json.dumps({"key": key, **asdict(found)}))
    return found
