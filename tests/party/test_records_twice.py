"""Two data sets with the same people: said to their operator at the check, and never by what a coordinator hears."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from parley.attacks.data_sets import house_of_two, named
from parley.attacks.documents import write_party
from parley.party.admission import UNSEALED, Ready
from parley.party.process import party_node
from parley.party.record_check import seal_node
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.ledger import Ledger


def answers(folder: Path, start: int) -> list[bool]:
    """Whether runs on b are taken up: before a run on a was charged, and after."""
    house = house_of_two(folder, "house", "others", start=start, apart=True)
    found = []
    with house.gate() as gate:
        found.append(isinstance(gate.decide(named("heart-1", "b")), Ready))
        manifest = named("heart-2", "a")
        ready = gate.decide(manifest)
        assert isinstance(ready, Ready)
        gate.charge(manifest, ready, house.words(manifest), house.pins)
        found.append(isinstance(gate.decide(named("heart-3", "b")), Ready))
    return found


@pytest.mark.parametrize(("start", "due"), [(0, False), (500, True)])
def test_a_run_on_one_data_set_changes_no_answer_about_another(tmp_path: Path, start: int, due: bool) -> None:
    """Else a coordinator would learn whether people are in both, by a run that is refused after another."""
    assert answers(tmp_path, start) == [due, due]


def test_the_operator_hears_which_data_set_has_the_same_people(tmp_path: Path) -> None:
    house = house_of_two(tmp_path, "house", "others", start=0, apart=True)
    assert not (house.folder / "state" / "seal-b.json").exists()
    with pytest.raises(LedgerRefusedError, match=r"are those that seal-a\.json is about, of population patients"):
        seal_node(house.folder, "b")


def test_a_seal_is_of_its_population(tmp_path: Path) -> None:
    """Renamed in node.toml, the same people would have two, which would be found when both are charged."""
    house = house_of_two(tmp_path, "house", "patients", start=0)
    first, second = party_node(house.folder).data
    with contextlib.closing(Ledger.open(house.ledger)) as ledger:
        for each in ("patients", "others"):
            ledger.declare_apart(each, "a person who is wrong")
    write_party(house.folder, budget=(2.0, 1e-3), data=(first, replace(second, population="others")))
    with house.gate() as gate:
        assert gate.decide(named("heart-1", "b")) is UNSEALED
        assert "population others" in gate.shelf.seals["b"].problem


def test_a_data_set_that_was_out_of_node_toml_for_a_while_is_still_looked_at(tmp_path: Path) -> None:
    house = house_of_two(tmp_path, "house", "others", start=0, apart=True)
    _, second = party_node(house.folder).data
    write_party(house.folder, budget=(2.0, 1e-3), data=(second,))
    with pytest.raises(LedgerRefusedError, match=r"seal-a\.json"):
        seal_node(house.folder, "b")
