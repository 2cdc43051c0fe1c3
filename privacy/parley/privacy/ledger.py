"""The privacy ledger: every run on a population is charged here before anything of it is released.

A whole run is charged durably at admission (`reserve`); each release is recorded before it leaves (`record`); what was
not released comes back only when the run's end is proved (`settle`). So a crash at any point leaves at least what was
spent. One ledger per party over all its runs, and one at the coordinator.

Where a server is caught that had served runs under `covert`, these are charged at what holds against a server that does
anything whatever (`charge_for_cheating`), beyond the cap if need be, and nothing takes that back.

A ledger that is put back from a backup charges nothing (`put_back`) until the servers' accounts have said what was
charged since (`account`).

Rows are hashed under a salt that lies apart, in `<ledger>.salt`: the ledger alone answers no question about a row. Its
first entry has the salt's digest. A ledger of the first layout had the salt in that entry; `Ledger.open_newest` writes
such a one again (`Chain.rewrite`), and the head that it had is kept in the new first entry and checked ever after.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.privacy.chain import Chain, Entry
from parley.privacy.errors import (
    BudgetExceededError,
    InvalidParameterError,
    LedgerCorruptError,
    LedgerRefusedError,
    OtherContentError,
)
from parley.privacy.event import NeighbouringRelation
from parley.privacy.filters import Cap, Charge, Limit, Policy, room_for, room_within
from parley.privacy.head import START, Head
from parley.privacy.ledger_salt import former_digests, read_salt, salt_digest, salt_path, write_salt
from parley.privacy.ledger_state import LAYOUT, Population, Run, State, replay
from parley.privacy.mechanism import Unit
from parley.privacy.population import Identity
from parley.privacy.put_back import NO_ACCOUNT, PutBack

LIGHT = frozenset({"release"})
"""A run is charged whole when it is reserved: releases are evidence, and no budget is larger for want of one."""


@dataclass(frozen=True)
class EndProof:
    """Evidence that a run has ended after `releases` opened sums, such as both aggregators' signed counters."""

    run: str
    releases: int
    kind: str
    evidence: bytes


ProofCheck = Callable[[EndProof], None]
"""Raises unless the evidence proves what the proof says. Who can sign an end is not this folder's business."""


class Ledger(PutBack):
    """A ledger on disk. One instance per process and thread; several processes may share a file."""

    def __init__(self, chain: Chain, anchor: Head | None = None) -> None:
        self._chain = chain
        self._state = State()
        self._seen = START
        self._written: list[Entry] = []
        """By this instance, not committed yet."""
        self.verify(anchor)

    @classmethod
    def create(cls, path: Path, policy: Policy) -> "Ledger":
        """A new ledger, whose filter is fixed for its life."""

        def first() -> dict[str, Any]:
            salt = read_salt(path) if salt_path(path).exists() else secrets.token_hex(16)
            write_salt(path, salt)
            return _first(policy.as_json(), salt, "")

        ledger = cls(Chain.create(path, "ledger", first, LIGHT))
        if ledger.policy != policy:
            raise LedgerRefusedError(f"{path.name} was created with another filter: open it, or choose another path")
        return ledger

    @classmethod
    def open(cls, path: Path, anchor: Head | None = None) -> "Ledger":
        """An existing ledger, verified whole; `anchor` is a head that somebody else kept."""
        return cls(Chain.open(path, LIGHT), anchor)

    @classmethod
    def open_newest(cls, path: Path) -> "Ledger":
        """For the node whose ledger it is: one of the first layout is written again, with its salt apart."""
        ledger = cls.open(path)
        if not ledger._state.salt:
            ledger._chain.stamp()
            return ledger
        ledger.close()

        def first(entry: Entry, head: Head) -> dict[str, Any] | None:
            if "layout" in entry.body:
                return None  # another process was faster
            write_salt(path, entry.body["salt"])
            return _first(entry.body["policy"], entry.body["salt"], str(head))

        Chain.rewrite(path, first, LIGHT)
        return cls.open_newest(path)

    def close(self) -> None:
        """Release the file."""
        self._chain.close()

    @property
    def policy(self) -> Policy:
        """How runs add up here."""
        return self._state.policy

    @property
    def populations(self) -> dict[str, Population]:
        """Every population by name, as of the last operation; `verify` reads the newest."""
        return self._state.populations

    @property
    def runs(self) -> dict[str, Run]:
        """Every run by name, as of the last operation; `verify` reads the newest."""
        return self._state.runs

    def identity(self, rows: Iterable[bytes]) -> Identity:
        """The content of a data set, under this ledger's salt: one canonical byte string per row."""
        return Identity.of(self._salt(), rows)

    @property
    def declared_apart(self) -> frozenset[str]:
        """Names for which somebody answers that nobody is in another population too."""
        return frozenset(self._state.apart)

    @property
    def mark(self) -> str:
        """Which ledger an identity was computed for, in any layout: tells nothing of the salt."""
        salted = self._state.salt_digest or salt_digest(self._state.salt)
        return hashlib.sha256(b"parley ledger mark" + salted.encode()).hexdigest()[:32]

    def find(self, identity: Identity) -> str | None:
        """The population that has this content, or too much of it, under whatever file name."""
        for population in self._state.populations.values():
            if any(known.same_people(identity) for known in population.identities):
                return population.name
        return None

    def declare_apart(self, name: str, by: str) -> None:
        """Let `name` have a cap of its own beside those that are here: `by` answers for it that nobody is in two.

        For data of other people, never for more of the same: a person in two populations has two budgets.
        """
        if not name.strip() or not by.strip():
            raise InvalidParameterError("a declaration needs the population's name and whoever answers for it")
        with self._writing():
            if name in self._state.populations:
                raise LedgerRefusedError(f"population {name} has its budget already: there is nothing to declare")
            if name not in self._state.apart:
                self._append("apart", {"name": name, "by": by})

    def require_own(self, name: str, identity: Identity | None = None, others: Sequence[str] = ()) -> None:
        """Refuse a name under which these rows would come to a fresh cap.

        `others` are names that are about to be charged here as well.
        """
        same = self.find(identity) if identity else None
        if same not in (None, name):
            raise LedgerRefusedError(f"these rows are those of population {same}: charge runs to {same}")
        others = [each for each in (*self._state.populations, *others) if each != name]
        if name not in self._state.populations and others and name not in self._state.apart:
            raise LedgerRefusedError(
                f"this node keeps the budget of {others[0]}, and {name} would be a fresh one: write {others[0]} into "
                f"node.toml; only if no person is in both, declare `parley party populations NODE --apart {name}`"
            )

    def register(self, name: str, unit: Unit, cap: Cap, identity: Identity | None = None) -> None:
        """Admit a population with its cap, for good. A coordinator holds no rows and gives no identity."""
        if not name.strip():
            raise InvalidParameterError("the population's name is empty: give it one")
        body = {
            "name": name,
            "unit": unit.column,
            "cap": {"epsilon": cap.epsilon, "delta": cap.delta},
            "identity": identity.as_json() if identity else None,
        }
        with self._writing():
            known = self._state.populations.get(name)
            if known:
                if (known.unit, known.cap) == (unit, cap) and (identity is None or self.find(identity) == name):
                    return
                raise LedgerRefusedError(f"population {name} has another unit, cap or content: caps are final")
            if identity is not None:
                self.require_own(name, identity)
            self._append("population", body)

    def extend(self, name: str, identity: Identity) -> None:
        """Let a changed data set (rows added or corrected) go on under its population's budget."""
        with self._writing():
            self._population(name)
            if self.find(identity) not in (None, name):
                raise LedgerRefusedError(f"these rows are those of population {self.find(identity)}, not of {name}")
            if not any(known.digest == identity.digest for known in self._state.populations[name].identities):
                self._append("content", {"name": name, "identity": identity.as_json()})

    def reserve(
        self, run: str, population: str, charge: Charge, content: str | None = None, limit: Limit | None = None
    ) -> None:
        """Charge a whole run, durably, or refuse it. Call it again after a crash: one run is charged once.

        `content` is the digest of the rows that it is charged for (`identity`). `limit` is the owner's own, below the
        cap, which may change from run to run: it is decided here, with every other writer kept out.
        """
        if not run.strip():
            raise InvalidParameterError("the run's name is empty: use the run's identifier")
        with self._writing():
            budget = self._population(population)
            existing = self._state.runs.get(run)
            if existing:
                if existing.ended:
                    raise LedgerRefusedError(f"run {run} has ended: start a new run")
                if (existing.population, existing.charge) != (population, charge):
                    raise LedgerRefusedError(f"run {run} was admitted with another mechanism: start a new run")
                self._require_content(existing, content)
                return
            if self._state.restored:
                raise LedgerRefusedError(NO_ACCOUNT)
            self._require_room(budget, charge, limit)
            if content is not None and not any(known.digest == content for known in budget.identities):
                raise LedgerRefusedError(f"population {population} has no such content: register it first")
            body = {"run": run, "population": population, "charge": charge.as_json(), "content": content}
            self._append("reserve", body)

    def require_room(self, population: str, unit: Unit, cap: Cap, charge: Charge, limit: Limit | None = None) -> None:
        """Refused where `reserve` would refuse it now; unit and cap are of a population that is not registered yet."""
        self.verify()
        held = self._state.populations.get(population) or Population(population, unit, cap, [])
        self._require_room(held, charge, limit)

    def require_content(self, run: str, content: str) -> None:
        """A refusal unless the run was charged for these rows; whether it has ended since or not."""
        self.verify()
        admitted = self._state.runs.get(run)
        if admitted is None:
            raise LedgerRefusedError(f"run {run} was not admitted here: reserve it first")
        self._require_content(admitted, content)

    def record(self, run: str, round_index: int, digest: str, lasting: bool = True) -> None:
        """Note one release, durably, before it leaves. Repeating it is free; another content for it is refused.

        Not `lasting`, for a caller that has the release on disk elsewhere and notes it again when it starts: then no
        disk is waited for, and only a loss of power can undo it.
        """
        with self._writing(lasting):
            admitted = self._open_run(run)
            count = admitted.charge.event.count
            if isinstance(round_index, bool) or not 0 <= round_index < count:
                raise LedgerRefusedError(f"run {run} has rounds 0 to {count - 1}, and {round_index} is none of them")
            known = admitted.recorded.get(round_index)
            if known is not None and known != digest:
                raise LedgerRefusedError(
                    f"round {round_index} of run {run} was released with another content: resend that"
                )
            if known is None:
                self._append("release", {"run": run, "round": round_index, "digest": digest})

    def settle(self, proof: EndProof, check: ProofCheck, pending: int = 0) -> None:
        """End a run and give back what was not released (see `Charge.after`), on proof.

        `pending` is how many of the newest rounds on record may have had no release yet: one for a party, which records
        its answer before anybody opens a sum with it and is not asked the next question before.
        """
        with self._writing():
            admitted = self._open_run(proof.run)
            count = admitted.charge.event.count
            if isinstance(proof.releases, bool) or not 0 <= proof.releases <= count:
                raise LedgerRefusedError(f"run {proof.run} has {count} releases: it cannot end after {proof.releases}")
            if proof.releases < max(admitted.recorded, default=-1) + 1 - pending:
                raise LedgerRefusedError(
                    f"the proof says {proof.releases} releases and round {max(admitted.recorded)} of run {proof.run} "
                    "is on record: ask for a proof that counts it"
                )
            check(proof)
            self._append(
                "settle",
                {
                    "run": proof.run,
                    "releases": proof.releases,
                    "proof": proof.kind,
                    "evidence": hashlib.sha256(proof.evidence).hexdigest(),
                },
            )

    def charge_for_cheating(self, runs: Iterable[str], evidence: str) -> tuple[str, ...]:
        """Charge each of these runs as a whole at (ε₂, δ₂), durably: a server that served them was caught.

        `evidence` is the SHA-256, in hex, of what convicts it; whoever calls has verified that. No cap, no end of a run
        and nothing given back stands against it, and it cannot be undone. A run without ε₂ leaves its population
        without room for anything more. All of them in one entry, each once for one evidence however often this is
        called: after a crash, call it again. Runs that this ledger never charged are passed over. Answers those that
        are charged for it now and were not before.
        """
        if re.fullmatch("[0-9a-f]{64}", evidence) is None:
            raise InvalidParameterError(f"{evidence[:80]!r} is no digest of evidence: give its SHA-256 in hex")
        with self._writing():
            known = self._state.runs
            found = [run for run in dict.fromkeys(runs) if run in known and evidence not in known[run].evidence]
            if found:
                self._append("caught", {"evidence": evidence, "runs": found})
        return tuple(found)

    def verify(self, anchor: Head | None = None) -> Head:
        """Check the chain from its first entry, and that no entry breaks the ledger's own rules; the newest head."""
        head = self._chain.verify(anchor, former_digests(self._chain))
        state = State()
        for entry in self._chain.entries():
            replay(state, entry)
            self._seen = Head(entry.sequence, entry.digest)
        self._state = state
        return head

    def _salt(self) -> str:
        if self._state.salt:
            return self._state.salt
        salt = read_salt(self._chain.path)
        if salt_digest(salt) != self._state.salt_digest:
            raise LedgerCorruptError("the ledger's salt is another ledger's: restore the one that belongs to it")
        return salt

    def _require_room(self, budget: Population, charge: Charge, limit: Limit | None) -> None:
        if budget.unit.column is not None and charge.unit != budget.unit:
            given = f"column {charge.unit.column}" if charge.unit.column else "single rows"
            raise LedgerRefusedError(
                f"population {budget.name} is kept by {budget.unit.column} and the run protects {given}: "
                f"run it with {budget.unit.column} as the unit of privacy"
            )
        if charge.event.relation is not NeighbouringRelation.REPLACE_ONE:
            raise LedgerRefusedError("budgets are kept under replace-one: add-or-remove is for comparisons")
        self._require_rule(charge)
        room = room_for(self.policy, budget.cap, budget.spent, charge.cost)
        if not room.fits:
            raise BudgetExceededError(f"the run does not fit population {budget.name}: {room.left}", room.exhausted)
        if limit is not None:
            room = room_within(self.policy, budget.cap, budget.spent, charge.cost, limit)
            if not room.fits:
                raise BudgetExceededError(f"the run does not fit the policy: {room.left}", room.exhausted)

    def _require_content(self, run: Run, content: str | None) -> None:
        if content is not None and run.content != content:
            raise OtherContentError(
                f"run {run.name} was charged for other rows: put back the data that it was charged for, or leave it"
            )

    @contextmanager
    def _writing(self, lasting: bool = True) -> Iterator[None]:
        """Decide on the newest state, with every other writer kept out; and know the result once it is committed."""
        self._written.clear()
        with self._chain.writing(lasting):
            self._follow(self._chain.entries(self._seen))
            yield
        # Only what is committed counts: a failed commit leaves no trace here.
        self._follow(self._written)

    def _follow(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            replay(self._state, entry)
            self._seen = Head(entry.sequence, entry.digest)

    def _append(self, kind: str, body: dict[str, Any]) -> None:
        self._written.append(self._chain.append(kind, body))

    def _population(self, name: str) -> Population:
        if name not in self._state.populations:
            raise LedgerRefusedError(f"no population {name!r} in this ledger: register it with a cap first")
        return self._state.populations[name]

    def _open_run(self, run: str) -> Run:
        admitted = self._state.runs.get(run)
        if admitted is None:
            raise LedgerRefusedError(f"run {run} was not admitted here: reserve it first")
        if admitted.ended or admitted.accounted:  # of the latter no end says what the account did not
            why = "ended" if admitted.ended else "been accounted for"
            raise LedgerRefusedError(f"run {run} has {why}: start a new run")
        return admitted

    def _require_rule(self, charge: Charge) -> None:
        if not charge.consistent:
            raise LedgerRefusedError("the charge does not follow from its own event: compute it with filters.charge_of")
        by_rdp = bool(charge.rdp_per_release)
        if by_rdp != (self.policy.rule == "rdp") or (by_rdp and charge.accountant != self.policy.accountant):
            raise LedgerRefusedError(
                f"the charge was computed by {charge.accountant} and this ledger adds up by {self.policy.rule}: "
                "compute it with the ledger's policy"
            )


def _first(policy: dict[str, Any], salt: str, before: str) -> dict[str, Any]:
    return {"layout": LAYOUT, "policy": policy, "salt": salt_digest(salt), "before": before}
