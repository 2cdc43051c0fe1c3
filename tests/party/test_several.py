"""Several data sets of one party: a manifest names one, by documents alone, and never whose budget it costs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.attacks.data_sets import house_of_two, named
from parley.attacks.documents import UNITS, policy_text, schema_text, write_party
from parley.attacks.house import House, made
from parley.cli.commands.doctor import examine
from parley.cli.commands.party import app as party_app
from parley.cli.commands.schema import app
from parley.federation.manifest import Manifest
from parley.federation.toml_text import toml_text
from parley.node.doctor import FAILED, OK, WARNING
from parley.node.errors import NodeError
from parley.party.admission import UNSEALED, Gate, Ready, Waiting
from parley.party.approval import approve
from parley.party.client import PartyClient
from parley.party.errors import RefusedRunError
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node
from parley.privacy.errors import LedgerRefusedError
from tests.support.examined import by_check


@pytest.fixture
def house(tmp_path: Path) -> House:
    """With the data sets a and b of one population."""
    return house_of_two(tmp_path, "house", "patients")


def refusal(gate: Gate, manifest: Manifest) -> str:
    with pytest.raises(RefusedRunError) as raised:
        gate.decide(manifest)
    return str(raised.value)


def ready(gate: Gate, manifest: Manifest) -> Ready:
    found = gate.decide(manifest)
    assert isinstance(found, Ready)
    return found


def test_a_run_is_about_the_data_set_that_its_manifest_names(house: House) -> None:
    sums = {}
    with house.gate() as gate:
        for name in ("a", "b"):
            manifest = named(f"heart-{name}", name)
            found = ready(gate, manifest)
            assert (found.data.name, found.data.files[0].name) == (name, {"a": "records.csv", "b": "b.csv"}[name])
            records = gate.shelf.records(manifest, found.understood.schema, found.data, found.sealed)
            sums[name] = float(records.rows.take(range(30)).dense().sum())  # type: ignore[arg-type]
    assert sums["a"] != sums["b"]


def test_without_a_name_there_is_nothing_to_choose_among_several_and_an_unknown_one_is_refused(house: House) -> None:
    """By two documents: what is answered is the same whether the records are sealed, changed or gone."""
    said = []
    for spoil in (lambda: None, lambda: (house.folder / "b.csv").write_text("x"), (house.folder / "b.csv").unlink):
        spoil()
        with house.gate() as gate:
            said.append([refusal(gate, made()), *(refusal(gate, named("heart-2", name)) for name in ("c", "records"))])
    assert said[0] == said[1] == said[2]
    unnamed, c, _ = said[0]
    assert unnamed == "parties: do not say which data set of hospital-a is meant, and it has several: ask it"
    assert c == "parties: say that hospital-a's data set is 'c', which it does not have: ask it"
    assert not any("b.csv" in each or "'a'" in each for each in said[0]), "its names are for people to agree on"


def test_a_party_of_one_data_set_refuses_a_name(tmp_path: Path) -> None:
    with House(tmp_path).gate() as gate:
        assert "which it does not have" in refusal(gate, named("heart-1", "a"))
        ready(gate, made())


def test_each_has_a_seal_of_its_own(house: House) -> None:
    (house.folder / "b.csv").write_text((house.folder / "b.csv").read_text() + "20,40,1\n")
    with house.gate() as gate:
        ready(gate, named("heart-1", "a"))
        assert gate.decide(named("heart-2", "b")) is UNSEALED
    found = by_check(examine(house.folder))
    assert (found["seal a"].state, found["seal b"].state) == (OK, FAILED)
    assert "b.csv was changed since it was sealed" in found["seal b"].problem
    (problem,) = seal_node(house.folder, "b").problems
    assert problem.startswith(f"there are {UNITS + 1} units and schema.toml says {UNITS}")


@pytest.mark.slow
def test_a_policy_says_which_are_admitted_without_a_person(house: House) -> None:
    (house.folder / "policy.toml").write_text(policy_text(epsilon_total=2.0, data_sets=["a"]))
    with house.gate() as gate:
        ready(gate, named("heart-1", "a"))
        found = gate.decide(named("heart-2", "b"))
    assert isinstance(found, Waiting)
    assert found.reasons == "parties: say that hospital-a's data set is 'b': choose another, or add it to data_sets"
    findings = by_check(examine(house.folder))
    assert (findings["seal a"].state, findings["seal b"].state) == (OK, WARNING)
    assert findings["seal b"].fix == "add it to data_sets, or approve each run by hand"
    manifest = named("heart-2", "b")
    settings = settings_of(party_node(house.folder))
    done = approve(settings, manifest, manifest.digest.hex(), "a person", lambda words: None)
    assert (done.admitted, [each.partition(":")[0] for each in done.reasons]) == (True, ["parties"])
    assert "Records of hospital-a: its data set b." in done.meaning.sentences
    with house.gate() as gate:
        ready(gate, manifest)


def test_names_that_are_exchanged_under_a_run_end_it(house: House) -> None:
    manifest = named("heart-1", "a")
    with house.gate() as gate:
        gate.charge(manifest, ready(gate, manifest), house.words(manifest), house.pins)
    first, second = party_node(house.folder).data
    exchanged = (replace(first, files=second.files), replace(second, files=first.files))
    write_party(house.folder, budget=(2.0, 1e-3), data=exchanged)
    with house.gate() as gate:
        assert gate.decide(manifest) is UNSEALED
    for name in ("a", "b"):
        seal_node(house.folder, name)
    with house.gate() as gate:
        assert "this party takes no further part" in refusal(gate, manifest)


def test_a_second_population_is_refused_everywhere_until_somebody_answers_for_it(tmp_path: Path) -> None:
    """At the check, at the start, and at a manifest; of the one that was there before as well, for both are new."""
    house = house_of_two(tmp_path, "house", "staff")
    assert sorted(path.name for path in (house.folder / "state").glob("seal-*")) == []
    with pytest.raises(LedgerRefusedError, match="keeps the budget of patients, and staff would be a fresh one"):
        seal_node(house.folder, "b")
    with pytest.raises(LedgerRefusedError, match="would be a fresh one"):
        PartyClient(settings_of(party_node(house.folder)))
    assert by_check(examine(house.folder))["populations"].state == FAILED
    for name in ("patients", "staff"):
        done = CliRunner().invoke(
            party_app, ["populations", str(house.folder), "--apart", name, "--by", "Dr. Ada Osei"]
        )
        assert done.exit_code == 0, done.output
    assert (seal_node(house.folder, "a").fits, seal_node(house.folder, "b").fits) == (True, True)
    assert by_check(examine(house.folder))["populations"].state == OK
    with house.gate() as gate:  # in either order
        for run, name in (("heart-2", "b"), ("heart-1", "a")):
            manifest = named(run, name)
            gate.charge(manifest, ready(gate, manifest), house.words(manifest), house.pins)
        spent = {each.name: each.spent.epsilon for each in gate.ledger.populations.values()}
    assert set(spent) == {"patients", "staff"}
    found = [finding for finding in examine(house.folder) if finding.check == "budget"]
    assert [finding.problem.partition(":")[0] for finding in found] == ["staff", "patients"]
    body = json.loads(CliRunner().invoke(party_app, ["status", str(house.folder), "--json"]).output)
    assert [each["population"] for each in body["budgets"]] == ["patients", "staff"]
    assert body["budget"] == body["budgets"][0]


def test_one_population_is_counted_by_one_unit(house: House) -> None:
    """Else a patient's runs here and rows there would be one budget that nobody could read."""
    (house.folder / "by-patient.toml").write_text(schema_text(unit="patient"))
    first, second = party_node(house.folder).data
    write_party(
        house.folder, budget=(2.0, 1e-3), data=(first, replace(second, schema=house.folder / "by-patient.toml"))
    )
    with pytest.raises(NodeError, match="b is counted by patient, and a of the same population by single rows: give"):
        seal_node(house.folder, "b")


def test_the_command_looks_at_all_of_them_or_at_one(house: House) -> None:
    def check(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["check", str(house.folder), *words])
        return done.exit_code, done.output

    sealed = f"sealed: {UNITS} records of {UNITS} units, 3 columns"
    assert check() == (0, f"a: {sealed}\nb: {sealed}\n")
    (house.folder / "records.csv").unlink()
    code, said = check()
    assert (code, said.splitlines()[1]) == (1, f"b: {sealed}")
    assert said.startswith("a: does not fit: records.csv cannot be read")
    code, said = check("--json")
    body = json.loads(said)
    assert (code, body["sealed"]) == (1, False)
    assert [(each["name"], each["sealed"]) for each in body["data"]] == [("a", False), ("b", True)]
    assert check("--data", "b")[0] == 0
    with pytest.raises(NodeError, match=r"no data set 'c' in node\.toml: it has a, b"):
        CliRunner().invoke(app, ["check", str(house.folder), "--data", "c"], catch_exceptions=False)
    done = CliRunner().invoke(app, ["study", str(house.folder), "--data", "b", "--json"])
    assert json.loads(done.output)["units"] == UNITS
    for name, due in (("b", (0, True)), ("c", (1, False))):
        (house.folder / "run.toml").write_text(toml_text(named("heart-1", name).as_json()))
        words = ["check", str(house.folder), "--run", str(house.folder / "run.toml"), "--json"]
        done = CliRunner().invoke(party_app, words)
        assert (done.exit_code, json.loads(done.output)["fits"]) == due
