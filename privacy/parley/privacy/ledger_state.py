"""What the entries of a ledger amount to: populations, runs, and what each is charged."""

from dataclasses import dataclass, field
from typing import Any

from parley.privacy.chain import Entry
from parley.privacy.errors import InvalidParameterError, LedgerCorruptError
from parley.privacy.filters import Cap, Charge, Cost, Policy, room_for
from parley.privacy.mechanism import Unit
from parley.privacy.population import Identity

LAYOUT = 2


@dataclass
class Population:
    """One population's budget."""

    name: str
    unit: Unit
    cap: Cap
    identities: list[Identity]
    spent: Cost = field(default_factory=Cost)
    given_up: bool = False
    """Nobody knows what it was charged since the ledger's backup: the whole cap is spent."""


@dataclass
class Run:
    """One admitted run."""

    name: str
    population: str
    charge: Charge
    cost: Cost
    content: str | None = None
    """Digest of the rows that it was charged for; none where no rows are known, as at a coordinator."""
    recorded: dict[int, str] = field(default_factory=dict)
    ended: bool = False
    accounted: bool = False
    """Charged because servers said so, after this ledger was put back to an old state: nothing of it is given back."""
    manifest: str = ""
    """Of one that was accounted for: digest of its manifest, in hex."""
    evidence: list[str] = field(default_factory=list)
    """Digests of what proves that a server which served it cheated; it is charged as a whole then, for good."""
    proved: tuple[int, str] | None = None
    """Of one that has ended: how many releases that was proved to be after, and the digest of the evidence."""


@dataclass
class State:
    """What the entries so far amount to."""

    policy: Policy = field(default_factory=Policy)
    salt: str = ""
    """Of the first layout; empty where it lies apart."""
    salt_digest: str = ""
    before: str = ""
    """The head that the ledger had in the first layout, if it had one."""
    restored: bool = False
    """Put back from a backup, and not accounted for yet: nothing is charged meanwhile."""
    made: int | None = None
    """When that backup was made, in seconds since 1970; None where nobody knows."""
    must_account: set[str] = field(default_factory=set)
    """Names of servers without whose word nothing is accounted for, whatever node.toml says by then."""
    accounted: dict[str, int] = field(default_factory=dict)
    """By the manifests of runs that were lost: how many rounds the servers' accounts have told of."""
    apart: set[str] = field(default_factory=set)
    """Populations of which an operator has declared that no person of theirs is in another one here."""
    populations: dict[str, Population] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        body = entry.body
        match entry.kind:
            case "ledger":
                self.policy = Policy(**body["policy"])
                if body.get("layout", 1) == LAYOUT:
                    self.salt_digest, self.before = body["salt"], body["before"]
                elif "layout" in body:
                    raise LedgerCorruptError(f"the ledger has the unknown layout {body['layout']!r}: upgrade parley")
                else:
                    self.salt = body["salt"]
            case "population":
                identities = [Identity.from_json(body["identity"])] if body["identity"] else []
                unit, cap = Unit(body["unit"]), Cap(**body["cap"])
                self.populations[body["name"]] = Population(body["name"], unit, cap, identities)
            case "apart":
                self.apart.add(body["name"])
            case "content":
                self.populations[body["name"]].identities.append(Identity.from_json(body["identity"]))
            case "reserve":
                charge = Charge.from_json(body["charge"])
                content = body.get("content") or self._only_content(body["population"])
                self.runs[body["run"]] = Run(body["run"], body["population"], charge, charge.cost, content)
                self._recount(body["population"])
            case "release":
                self.runs[body["run"]].recorded[body["round"]] = body["digest"]
            case "settle":
                run = self.runs[body["run"]]
                run.ended, run.proved = True, (body["releases"], body["evidence"])
                if not run.evidence and not run.accounted:
                    run.cost = run.charge.after(body["releases"])
                self._recount(run.population)
            case "caught":
                for name in body["runs"]:
                    run = self.runs[name]
                    run.evidence.append(body["evidence"])
                    run.cost = run.charge.after_a_server_was_caught
                for population in {self.runs[name].population for name in body["runs"]}:
                    self._recount(population)
            case "restored":
                # Of a state that waits already, the older time says since when nothing is known; None is older still.
                times = [body["made"], *([self.made] if self.restored else [])]
                self.must_account = {*body.get("servers", ()), *(self.must_account if self.restored else ())}
                self.restored, self.made = True, None if None in times else min(times)
                self.salt, self.salt_digest = "", body["salt"] or self.salt_digest
            case "account":
                self.restored = False
                for each in body["runs"]:
                    run = Run(each["run"], each["population"], charge := Charge.from_json(each["charge"]), charge.cost)
                    run.accounted, run.manifest = True, each.get("manifest", "")
                    self.runs[run.name] = run
                for digest, rounds in body["rounds"].items():
                    self.accounted[digest] = max(rounds, self.accounted.get(digest, 0))
                for name in body["given_up"]:
                    self.populations[name].given_up = True
                for population in {*body["given_up"], *(each["population"] for each in body["runs"])}:
                    self._recount(population)
            case _:
                raise LedgerCorruptError(f"entry {entry.sequence} has the unknown kind {entry.kind!r}: upgrade parley")

    def _only_content(self, population: str) -> str | None:
        """For a charge of the first layout, which did not say: where there was one content, it was for that."""
        known = self.populations[population].identities
        return known[0].digest if len(known) == 1 else None

    def _recount(self, population: str) -> None:
        total = Cost()
        for run in self.runs.values():
            if run.population == population:
                total = total.plus(run.cost)
        budget = self.populations[population]
        if budget.given_up:
            total = total.plus(Cost(budget.cap.epsilon, budget.cap.delta, epsilon_if_a_server_lies=None))
        budget.spent = total


def replay(state: State, entry: Entry) -> None:
    """Apply one entry; one that this program would never have written is an edit with a mended chain."""
    if (entry.kind == "ledger") != (entry.sequence == 1):
        raise LedgerCorruptError(
            f"entry {entry.sequence} is of kind {entry.kind} where it cannot be: restore the ledger"
        )
    try:
        if entry.kind == "reserve":
            if state.restored:
                raise LedgerCorruptError(
                    f"entry {entry.sequence} charges a ledger that waits for an account: restore it"
                )
            budget = state.populations[entry.body["population"]]
            charge = Charge.from_json(entry.body["charge"])
            room = room_for(state.policy, budget.cap, budget.spent, charge.cost)
            if entry.body["run"] in state.runs or not room.fits:
                raise LedgerCorruptError(f"entry {entry.sequence} admits a run that does not fit: restore the ledger")
        if entry.kind == "caught" and not _is_news(state, entry.body):
            raise LedgerCorruptError(f"entry {entry.sequence} charges for the same evidence again: restore the ledger")
        if entry.kind == "account" and not _is_account(state, entry.body):
            raise LedgerCorruptError(f"entry {entry.sequence} accounts for what is known: restore the ledger")
        if entry.kind in ("release", "settle") and state.runs[entry.body["run"]].ended:
            raise LedgerCorruptError(f"entry {entry.sequence} goes on with a run that has ended: restore the ledger")
        if entry.kind == "population" and entry.body["name"] in state.populations:
            raise LedgerCorruptError(f"entry {entry.sequence} registers a population again: restore the ledger")
        state.apply(entry)
    except (KeyError, TypeError, ValueError, InvalidParameterError) as error:
        raise LedgerCorruptError(f"entry {entry.sequence} makes no sense ({error}): restore the ledger") from None


def _is_news(state: State, body: dict[str, Any]) -> bool:
    """Of evidence: for at least one run, each named once, and for none of them a second time."""
    runs: list[str] = body["runs"]
    return 0 < len(runs) == len(set(runs)) and all(body["evidence"] not in state.runs[run].evidence for run in runs)


def _is_account(state: State, body: dict[str, Any]) -> bool:
    """Of a ledger that waits for one: of runs that it has not, each named once."""
    runs = [each["run"] for each in body["runs"]]
    return state.restored and len(runs) == len(set(runs)) and not state.runs.keys() & set(runs)
