"""Attacks on a party's memory of what was spent: exchanged data, lost and old files, races, budgets that are wasted."""

import contextlib
import random
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.aggregator.opening_store import DamagedError, Opened, OpeningStore
from parley.aggregator.request import Request
from parley.attacks.house import House, Servers, made, owed
from parley.attacks.kinds import Attack, Finding, Guard, needed
from parley.federation.admission import BY_HAND, AdmissionRecord
from parley.federation.errors import ApprovalError
from parley.federation.manifest import Manifest
from parley.mpc.ring import Lattice
from parley.node.data_sets import DataSet
from parley.node.endings import sign_admission
from parley.party.admission import Gate, Ready
from parley.party.data import understand
from parley.party.errors import OutboxError, RefusedRunError
from parley.party.outbox import JOINED, LEFT, Answer, Outbox
from parley.party.seal import Sealed
from parley.privacy.errors import BudgetExceededError, PrivacyError
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.filters import Cap, Charge, Cost, Limit, Policy, Room
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from parley.privacy.population import Identity
from parley.privacy.sampling import FixedSize

FLIPS = 300
SEED = 20261119
RACERS = 8


def swapped(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """H2: the records are exchanged under a run that is charged, and the process starts again."""
    house, manifest = House(folder), made()
    with house.gate() as gate:
        charged(house, gate)
        house.answer(gate, manifest, 0)
    house.write(start=500)
    with house.gate() as gate:
        gate.catch_up()
        try:
            gate.decide(manifest)
        except RefusedRunError:
            return Finding("refused", "no answer from rows that were not charged", "the run is left")
    return Finding("succeeds", "no answer from rows that were not charged", "answers from other people's rows")


def lost(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """H3: the ledger's files are gone, as from a backup that left them out."""
    house = House(folder)
    with house.gate() as gate:
        charged(house, gate)
        house.answer(gate, made(), 0)
        before = house.spent(gate)
    for path in house.ledger.parent.glob("ledger.sqlite*"):
        path.unlink()
    return forgotten(house, before, lambda gate: None)


def older(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """The ledger's files alone are put back to what they were before a run."""
    house = House(folder)
    with house.gate():
        pass
    copy = kept(house.ledger.parent, "ledger.sqlite*", folder / "copy")
    with house.gate() as gate:
        charged(house, gate)
        house.answer(gate, made(), 0)
        before = house.spent(gate)
    put_back(house.ledger.parent, "ledger.sqlite*", copy)
    return forgotten(house, before, Gate.catch_up)


def snapshot(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """The whole state is put back to what it was before a run; both servers remember it, over TLS."""
    house, manifest = House(folder), made()
    with house.gate():
        pass
    copy = kept(house.ledger.parent, "*", folder / "copy")
    with house.gate() as gate:
        charged(house, gate)
        house.answer(gate, manifest, 0)
        before = house.spent(gate)
    put_back(house.ledger.parent, "*", copy)
    with Servers(house, {"south": [(manifest, 0)]}) as servers:  # one of them says nothing, as a dishonest one would
        following = made("heart-2")
        return forgotten(house, before, lambda gate: servers.recollect(gate, following))


def raced(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """H4: runs that were admitted side by side are charged at once, beyond what the policy lets be spent in all."""
    path, total = folder / "ledger.sqlite", 2.0
    with contextlib.closing(Ledger.create(path, Policy())) as ledger:
        ledger.register("patients", ROW, Cap(20.0, 1e-3), ledger.identity(rows()))
        content = ledger.populations["patients"].identities[0].digest
    together = threading.Barrier(RACERS)

    def race(number: int) -> None:
        with contextlib.closing(Ledger.open(path)) as mine:
            spent = mine.populations["patients"].spent.epsilon
            needed(spent == 0.0, "a run was charged before the others had looked")
            together.wait(30)
            with contextlib.suppress(BudgetExceededError):
                mine.reserve(f"run-{number}", "patients", CHARGE, content, Limit(total))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(RACERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with contextlib.closing(Ledger.open(path)) as ledger:
        spent = ledger.populations["patients"].spent.epsilon
    return Finding("bounded" if spent <= total else "succeeds", total, spent)


def wasted(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """A coordinator has hospitals join run after run, and never asks a round."""
    house = House(folder)
    with house.gate() as gate:
        for number in range(3):
            manifest = made(f"heart-{number}")
            needed(isinstance(gate.decide(manifest), Ready), "a hospital did not join")
            gate.note(manifest, JOINED)
        spent = house.spent(gate)
    return Finding("bounded" if spent == 0 else "succeeds", 0.0, spent)


def unadmitted(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """A coordinator asks a round of a run that one aggregator has refused: its word twice, and another's for it."""
    house, manifest = House(folder), made()
    north, other = house.identities["north"], house.stranger("south")
    words = [sign_admission(north, manifest.digest), sign_admission(north, manifest.digest)]
    words.append(sign_admission(other, manifest.digest))
    with house.gate() as gate:
        ready = gate.decide(manifest)
        assert isinstance(ready, Ready)
        with contextlib.suppress(RefusedRunError):
            gate.charge(manifest, ready, words, house.pins)
        spent = house.spent(gate)
    return Finding("refused" if spent == 0 else "succeeds", 0.0, spent)


def ended_before(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """An aggregator has signed that a run it never admitted has no opening; then somebody approves it there."""
    record = AdmissionRecord(folder / "admissions.sqlite")
    manifest = made()
    needed(record.never(manifest.digest), "the end was not noted")
    try:
        AdmissionRecord(folder / "admissions.sqlite").put(manifest, BY_HAND, "a person")
    except ApprovalError:
        return Finding("refused", "no run after its end", "the name is taken")
    return Finding(
        "succeeds", "no run after its end", "a run of which parties have taken their budget back is admitted"
    )


def modes(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Somebody else on the host reads the ledger's files."""
    path = folder / "ledger.sqlite"
    with contextlib.closing(Ledger.create(path, Policy())) as ledger:
        ledger.register("patients", ROW, Cap(4.0, 1e-4), ledger.identity(rows()))
        files = list(folder.glob("ledger.sqlite*"))
        loose = [each.name for each in files if stat.S_IMODE(each.stat().st_mode) & 0o077]
    needed(len(files) >= 6, "there are not file, log, shared memory, head, lock and salt")
    return Finding("succeeds" if loose else "refused", 0, len(loose))


def guessed(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Whoever has a copy of ledger.sqlite alone asks it whether a row is among the records."""
    with contextlib.closing(Ledger.create(folder / "ledger.sqlite", Policy())) as ledger:
        ledger.register("patients", ROW, Cap(4.0, 1e-4), ledger.identity(rows()))
    copy = kept(folder, "ledger.sqlite", folder / "copy") / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(copy)) as database:
        text = " ".join(body for (body,) in database.execute("SELECT body FROM entries"))
    found = 0
    with contextlib.closing(Ledger.open(folder / "ledger.sqlite")) as ledger:
        known = set(ledger.populations["patients"].identities[0].sketch)
    words = {text[at : at + 32] for at in range(len(text) - 31)}
    for salt in (word for word in words if set(word) <= set("0123456789abcdef")):
        found += Identity.of(salt, rows()[:1]).sketch[0] in known
    return Finding("succeeds" if found else "refused", 0, found)


def outbox_flips(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Single bits of the outbox's file turn over: what is believed though it is not what was written."""
    path, manifest = folder / "outbox.sqlite", made()
    with contextlib.closing(Outbox(path)) as outbox:
        outbox.note(manifest.digest, manifest.run, manifest.canonical, JOINED)
        outbox.note(b"\1" * 32, "heart-0", manifest.canonical, LEFT, "a reason")
        last = None
        for index in range(40):
            answer = Answer(
                round_index=index,
                query=bytes([index]) * 32,
                upload=bytes([index]) * 32,
                payload_a=bytes(120),
                payload_b=bytes(32),
            )
            outbox.put(manifest.digest, answer, last)
            last = answer

    def read(at: Path) -> Any:
        with contextlib.closing(Outbox(at)) as outbox:
            outbox.require_sound()
            runs = outbox.runs()
            return [(run, outbox.last(run.digest), outbox.uploads(run.digest)) for run in runs]

    return flipped(path, read, (OutboxError,))


def opening_flips(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Single bits of an aggregator's store turn over."""
    path = folder / "openings.sqlite"
    path.touch(0o600)
    store = OpeningStore(path)
    for index in range(30):
        request = Request(
            run="heart-1",
            round=index,
            dimension=15,
            lattice=Lattice(1.0),
            minimum_parties=2,
            most_records=30,
            clip=1.0,
            query=bytes([index]) * 32,
        )
        store.prepare(request, Opened(("hospital-a", "hospital-b"), bytes([index]) * 120, bytes(16)), index)
        store.commit("heart-1", index)
    store.close()

    def read(at: Path) -> Any:
        with contextlib.closing(OpeningStore(at)) as store:
            store.require_whole("heart-1")
            return [store.counts("heart-1"), store.ended("heart-1"), *(store.find("heart-1", i) for i in range(30))]

    return flipped(path, read, (DamagedError,))


def flipped(path: Path, read: Callable[[Path], Any], typed: tuple[type[Exception], ...]) -> Finding:
    """How often a file with one bit turned over is read as something else, or fails without the store's own error."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    data, good, source, believed = path.read_bytes(), read(path), random.Random(SEED), 0
    for number in range(FLIPS):
        where = path.with_name(f"flip-{number % 4}.sqlite")
        for each in ("", "-wal", "-shm"):
            where.with_name(where.name + each).unlink(missing_ok=True)
        changed = bytearray(data)
        changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
        where.write_bytes(changed)
        try:
            believed += read(where) != good
        except typed:
            pass
        except Exception:
            believed += 1
    return Finding("succeeds" if believed else "refused", 0, believed)


def charged(house: House, gate: Gate) -> None:
    """heart-1, as when its first round is asked."""
    manifest = made()
    ready = gate.decide(manifest)
    assert isinstance(ready, Ready)
    gate.note(manifest, JOINED)
    gate.charge(manifest, ready, house.words(manifest), house.pins)


def forgotten(house: House, before: float, look: Callable[[Gate], None]) -> Finding:
    """Whether the node starts as if less had been spent."""
    try:
        with house.gate() as gate:
            look(gate)
            spent = house.spent(gate)
    except (PrivacyError, OutboxError, RefusedRunError):
        return Finding("refused", before, "the node answers nothing")
    return Finding("succeeds" if spent < before else "bounded", before, spent)


def kept(folder: Path, pattern: str, copy: Path) -> Path:
    copy.mkdir()
    for path in folder.glob(pattern):
        if path.is_file():
            shutil.copy2(path, copy / path.name)
    return copy


def put_back(folder: Path, pattern: str, copy: Path) -> None:
    for path in folder.glob(pattern):
        if path.is_file():
            path.unlink()
    for path in copy.iterdir():
        shutil.copy2(path, folder / path.name)


def rows() -> list[bytes]:
    return [f"row {number}".encode() for number in range(50)]


CHARGE = Charge(
    "m" * 64, Event((SampledGaussian(FixedSize(50, 5), 2.0, 20),)), ROW, EXACT, "pld", Cost(epsilon=1.0, delta=1e-6)
)


def _roomy(policy: Policy, cap: Cap, spent: Cost, wanted: Cost, limit: Limit) -> Room:
    """The check as it was: made before, and not here."""
    return Room(True, "")


_due = Gate._due


def _at_once(self: Gate, manifest: Manifest, data: DataSet, sealed: Sealed, charge: Charge | None) -> Charge | None:
    """As it was: charged when the party joins."""
    found = _due(self, manifest, data, sealed, charge)
    if found is not None:
        self._put(self._verified(manifest)[0], data)
        ready = Ready(understand(manifest), data, sealed, found)
        self.charge(manifest, ready, owed(manifest), owed.pins)
    return None


def _first(policy: dict[str, Any], salt: str, before: str) -> dict[str, Any]:
    """As the first layout had it."""
    return {"policy": policy, "salt": salt}


GUARDS = (
    Guard("content-of-run", "parley.privacy.ledger:Ledger._require_content", lambda self, run, content: None),
    Guard("ledger-is-there", "parley.party.books:require_ledger", lambda settings: None),
    Guard("one-story", "parley.party.admission:require_agreement", lambda ledger, outbox, trail: None),
    Guard("recollection", "parley.party.memory:Recollection.require", lambda *arguments: None),
    Guard("total-in-transaction", "parley.privacy.ledger:room_within", _roomy),
    Guard("charge-when-asked", "parley.party.admission:Gate._due", _at_once),
    Guard("both-words", "parley.party.admission:verify_admissions", lambda words, manifest, pins: {}),
    Guard("never-after-its-end", "parley.federation.admission:AdmissionRecord.never", lambda self, digest: True),
    Guard("ledger-files-600", "parley.privacy.store:PRIVATE", 0o644),
    Guard("salt-apart", "parley.privacy.ledger:_first", _first),
    Guard("outbox-seals", "parley.party.outbox:_seal", lambda *values: b""),
    Guard("openings-seals", "parley.aggregator.opening_store:_seal", lambda table, *values: b""),
)
ATTACKS = (
    Attack("H2", "Somebody exchanges a party's records while a run is under way.", ("content-of-run",), swapped),
    Attack("H3", "A party's ledger is lost, and its other files are not.", ("ledger-is-there",), lost),
    Attack("ledger-older", "A party's ledger alone is put back to an old state.", ("one-story",), older),
    Attack("state-older", "A party's whole state is put back, one server is silent.", ("recollection",), snapshot),
    Attack("H4", "Runs that are charged at once exceed the policy's total.", ("total-in-transaction",), raced),
    Attack("waste-joins", "A coordinator has parties join runs and asks nothing.", ("charge-when-asked",), wasted),
    Attack("waste-refused", "A round is asked of a run that a server never admitted.", ("both-words",), unadmitted),
    Attack(
        "after-its-end", "A run is admitted whose end was signed before it.", ("never-after-its-end",), ended_before
    ),
    Attack("ledger-modes", "Another user of the host reads the ledger's files.", ("ledger-files-600",), modes),
    Attack("ledger-salt", "Whoever has the ledger's file asks it about rows.", ("salt-apart",), guessed),
    Attack("outbox-flip", "A disk turns over bits of an outbox.", ("outbox-seals",), outbox_flips),
    Attack("openings-flip", "A disk turns over bits of a server's openings.", ("openings-seals",), opening_flips),
)
