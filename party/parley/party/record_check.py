"""What `parley schema check` does: a party's records against the whole of their schema.toml, and the seal."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.learning.errors import PartyError
from parley.learning.fit import Fit
from parley.learning.holding import read_holding
from parley.node.data_sets import DataSet
from parley.node.errors import NodeError
from parley.node.trail import Trail
from parley.party.books import open_ledger, states_of
from parley.party.outbox import JOINED
from parley.party.process import party_node, settings_of
from parley.party.seal import Taken, seal
from parley.party.seal import taken as last_taken
from parley.party.settings import Settings
from parley.party.snapshot import take


@dataclass(frozen=True)
class Checked:
    """What was found of one data set. It tells of records: for local eyes."""

    fit: Fit
    taken: Taken | None
    """When a query gave them; None of files."""
    under_way: tuple[str, ...] = ()
    """Runs for whose sake the database was not asked again."""


def seal_node(folder: Path, name: str = "") -> Fit:
    """Of the node's data set of that name, or of its only one."""
    settings = settings_of(party_node(folder))
    return seal_data(settings, folder, chosen(settings, name)).fit


def chosen(settings: Settings, name: str) -> DataSet:
    """A data set by the name that its operator gives."""
    if (found := settings.chosen(name)) is not None:
        return found
    known = ", ".join(each.name for each in settings.data if each.name)
    raise NodeError(f"no data set {name!r} in node.toml: it has {known or 'one, without a name'}")


def seal_data(settings: Settings, folder: Path, data: DataSet) -> Checked:
    """Sealed where everything fits, noted in the trail. Of a database, its rows are taken anew first, unless a run that
    goes on only with the old ones is under way."""
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    runs: tuple[str, ...] = ()
    taken = None
    if data.query is not None:
        runs = _under_way(settings, data)
        taken = _kept(settings, data) if runs else take(data, folder if folder.is_dir() else folder.parent)
    if taken is not None and not data.schema.exists():
        raise NodeError(
            f"the rows are in {data.files[0]}, and there is no {data.schema.name} yet: `parley schema draft "
            f"{data.files[0]} -o {data.schema}` begins one"
        )
    _require_one_unit(settings, data)
    with contextlib.closing(open_ledger(settings)) as ledger:
        found = seal(settings, data, ledger, taken)
    with Trail.open(settings.trail, settings.identity.load().name) as trail:
        event = "records.sealed" if found.fits else "records.unsealed"
        trail.append(event, durable=True, data_set=data.name or None)
    return Checked(found, taken, runs)


def _under_way(settings: Settings, data: DataSet) -> tuple[str, ...]:
    """Runs on these rows that this party has joined and neither left nor seen end: other rows would end them."""
    joined = [held for held in states_of(settings) if held.state == JOINED and not of_an_earlier_version(held.manifest)]
    if not joined or not data.files[0].exists():
        return ()
    name, found = settings.identity.load().name.name, []
    with contextlib.closing(AdmissionRecord(settings.admissions)) as record:
        for held in joined:
            admitted = record.held(held.run)
            theirs = settings.chosen(Manifest.from_canonical(held.manifest).data_set_of(name))
            if admitted is not None and not admitted[1] and theirs == data:
                found.append(held.run)
    return tuple(sorted(found))


def _kept(settings: Settings, data: DataSet) -> Taken:
    """When the rows that are there were taken; without a seal of them, when their file was written."""
    return last_taken(settings.seal(data)) or Taken(data.files[0].stat().st_mtime, "")


def _require_one_unit(settings: Settings, data: DataSet) -> None:
    """One budget is kept by one unit: by patients here and by rows there, nobody could say what a patient has spent."""
    unit = read_holding(data.schema).unit
    for other in settings.data:
        with contextlib.suppress(PartyError):  # what is wrong with that one is said when it is checked
            if other.population == data.population and (its := read_holding(other.schema).unit) != unit:
                raise NodeError(
                    f"{data.called} is counted by {unit or 'single rows'}, and {other.name} of the same population "
                    f"by {its or 'single rows'}: give both schemas one unit, or the data another population"
                )
