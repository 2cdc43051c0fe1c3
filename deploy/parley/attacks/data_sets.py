"""Attacks on a budget by way of a node that has several data sets: named in turn, or with the same people in two."""

import contextlib
from pathlib import Path

from parley.attacks import documents
from parley.attacks.house import House
from parley.attacks.kinds import Attack, Finding, Guard, needed
from parley.federation.manifest import Manifest
from parley.node.data_sets import DataSet
from parley.party.admission import Ready
from parley.party.errors import RefusedRunError
from parley.party.record_check import seal_node
from parley.privacy.errors import PrivacyError
from parley.privacy.ledger import Ledger

BUDGET = 2.0
"""All that a patient of the house may ever lose: about five runs, each of which claims to cost half of it."""
RUNS = 16


def in_turn(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """A coordinator names a node's data sets in turn: of one population, and where node.toml gives each its own."""
    shared, apart = (
        _spent(house_of_two(folder, name, whose)) for name, whose in (("one", "patients"), ("two", "others"))
    )
    needed(shared > BUDGET / 2, "the budget was hardly touched")
    return Finding("bounded" if max(shared, apart) <= BUDGET else "succeeds", BUDGET, max(shared, apart))


def twice_over(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """The same people lie in two data sets, of which their operator has declared that nobody is in both."""
    spent = _spent(house_of_two(folder, "twice", "others", start=0, apart=True))
    needed(spent > BUDGET / 2, "the budget was hardly touched")
    return Finding("bounded" if spent <= BUDGET else "succeeds", BUDGET, spent)


def house_of_two(folder: Path, name: str, population: str, start: int = 500, apart: bool = False) -> House:
    """With a second data set, b, of this population, whose rows begin with `start`; those of a with 0."""
    (folder / name).mkdir()
    house = House(folder / name)
    lines = [f"{20 + (start + n) * 0.1:.1f},{40 + n},{n % 2}" for n in range(documents.UNITS)]
    (house.folder / "b.csv").write_text("\n".join(["age,pulse,sick", *lines]) + "\n")
    schema = house.folder / "schema.toml"
    sets = (
        DataSet(name="a", files=(house.folder / "records.csv",), schema=schema, population="patients"),
        DataSet(name="b", files=(house.folder / "b.csv",), schema=schema, population=population),
    )
    documents.write_party(house.folder, budget=(BUDGET, 1e-3), data=sets)
    policy = documents.policy_text(epsilon_total=BUDGET, data_sets=["a", "b"])
    (house.folder / "policy.toml").write_text(policy)
    with contextlib.closing(Ledger.open(house.ledger)) as ledger:
        for each in ("patients", population) if apart else ():
            ledger.declare_apart(each, "a person who is wrong")
    for each in ("a", "b"):
        with contextlib.suppress(PrivacyError):
            seal_node(house.folder, each)
    return house


def _spent(house: House) -> float:
    """By runs on a, b, a, b, … until neither is admitted any more."""
    with house.gate() as gate:
        for number in range(RUNS):
            manifest = named(f"heart-{number}", "ab"[number % 2])
            with contextlib.suppress(RefusedRunError):
                ready = gate.decide(manifest)
                if isinstance(ready, Ready):
                    gate.charge(manifest, ready, house.words(manifest), house.pins)
        return house.spent(gate)


def named(run: str, name: str) -> Manifest:
    return documents.manifest(run=run, **{"privacy.epsilon": 1.0, "parties.0.data_set": name})


GUARDS = (Guard("rows-recognised", "parley.privacy.population:Identity.same_people", lambda self, other: False),)
ATTACKS = (
    Attack("data-sets", "A coordinator names a party's data sets in turn.", ("one-population",), in_turn),
    Attack("people-twice", "The same people lie in two data sets of a party.", ("rows-recognised",), twice_over),
)
