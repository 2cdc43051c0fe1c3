"""Patients who objected: the list takes effect between runs, and nothing of it leaves this machine."""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.attacks.documents import write_party
from parley.cli.commands.doctor import examine
from parley.learning.contributor import Query
from parley.learning.errors import DataError
from parley.learning.exclusion import files_mark
from parley.learning.holding import read_holding
from parley.node.doctor import FAILED, OK, WARNING
from parley.node.errors import NodeError
from parley.party.data import Shelf, understand
from parley.party.exclusions import exclude, exclusions_of, in_effect, under_way
from parley.party.outbox import Outbox
from parley.party.process import party_node, settings_of
from parley.party.record_check import seal_node
from parley.party.settings import Settings
from parley.privacy.filters import Policy
from tests.support.documents import PARTY_POLICY, SCHEMA, manifest
from tests.support.party_process import EVERYONE, Running, ledger, verified
from tests.support.stage import PARTY, Stage, question
from tests.support.until import until

BY_PATIENT: dict[str, Any] = {
    "schema.unit": "patient",
    "schema.records_per_unit": 2,
    "mechanism.unit_column": "patient",
    "parties.0.sampler": {"kind": "wor", "units": 150, "batch": 150},
    "mechanism.noise_multiplier": 20.0,
}


def listed(stage: Stage, text: str | None = "", by_patient: bool = False) -> Settings:
    """A node that names a list."""
    node = stage.node / "node.toml"
    if "excluded =" not in node.read_text():
        node.write_text(node.read_text().replace("[data]", '[data]\nexcluded = "excluded.txt"'))
    if by_patient:
        lines = (stage.node / "records.csv").read_text().splitlines()
        held = [f"{line},{f'p{row // 2}' if row >= 0 else 'patient'}" for row, line in enumerate(lines, -1)]
        (stage.node / "records.csv").write_text("\n".join(held) + "\n")
        unit = 'unit = "patient"\nrecords_per_unit = 2\n'
        stage.write_schema(unit + SCHEMA.replace("units = 300", "units = 150"))
        (stage.node / "policy.toml").write_text(PARTY_POLICY.replace('unit_column = ""', 'unit_column = "patient"'))
    if text is not None:
        (stage.node / "excluded.txt").write_text(text)
    assert stage.seal().fits
    return settings_of(party_node(stage.node))


def answer(settings: Settings, changes: dict[str, Any], excluded: Any) -> list[int]:
    """To the first question of a run over everybody."""
    made, shelf = manifest(**changes), Shelf(settings)
    sealed = shelf.seals[""].sealed()
    assert sealed is not None
    data = settings.data[0]
    party = shelf.contributor(made, understand(made), PARTY, data, sealed, excluded=excluded)
    return [int(each) for each in party.contribution(Query(0, (np.full(3, 0.3),)))]


def current(settings: Settings, changes: dict[str, Any], charged: bool = False) -> Any:
    sealed = Shelf(settings).seals[""].sealed()
    assert sealed is not None
    return in_effect(settings, settings.data[0], sealed, manifest(**changes), charged)


@pytest.mark.parametrize("by_patient", [True, False])
def test_whoever_is_excluded_is_in_no_answer_whatever_their_records_hold(stage: Stage, by_patient: bool) -> None:
    settings = listed(stage, by_patient=by_patient)
    changes, who = (BY_PATIENT, "p3") if by_patient else (EVERYONE, "7")
    before = answer(settings, changes, current(settings, changes))
    found = exclude(settings, [who, who])
    assert (found.listed, found.matched, found.missing) == (1, 1, ())
    less = answer(settings, changes, current(settings, changes))
    assert less != before
    lines = (stage.node / "records.csv").read_text().splitlines()
    for row in (7, 8) if by_patient else (7,):
        lines[row] = ",".join(
            ["20.5", "219", "0" if lines[row].split(",")[2] == "1" else "1", *lines[row].split(",")[3:]]
        )
    (stage.node / "records.csv").write_text("\n".join(lines) + "\n")
    assert stage.seal().fits
    if not by_patient:  # numbers are those of one file, until somebody has looked again
        assert Shelf(settings).seals[""].sealed() is None
        text = (stage.node / "excluded.txt").read_text()
        with pytest.raises(DataError, match="# record numbers of") as caught:
            exclude(settings, ["8"])
        (stage.node / "excluded.txt").write_text(f"# {str(caught.value).rpartition('# ')[2]}\n{text.splitlines()[1]}\n")
    assert answer(settings, changes, current(settings, changes)) == less


def test_a_run_keeps_the_list_that_it_began_with(stage: Stage) -> None:
    settings = listed(stage, "p1\n", by_patient=True)
    begun = current(settings, BY_PATIENT)
    assert begun.names == {"p1"}
    exclude(settings, ["p2"])
    assert current(settings, BY_PATIENT, charged=True) == begun
    assert current(settings, {**BY_PATIENT, "run": "heart-2"}).names == {"p1", "p2"}
    kept = settings.exclusions_of(manifest(**BY_PATIENT).digest)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # What it began with is gone: it must not go on with another one.
    kept.unlink()
    with pytest.raises(DataError, match="withdraw"):
        current(settings, BY_PATIENT, charged=True)
    # A run that is not charged has answered nothing, and begins with what is there now.
    assert current(settings, BY_PATIENT).names == {"p1", "p2"}


@pytest.mark.parametrize("kept", ["p1\n", "p1\n# names in all: 2\n", "p1\np2\n# names in al", ""])
def test_a_run_does_not_go_on_with_a_part_of_the_list_that_it_began_with(stage: Stage, kept: str) -> None:
    settings = listed(stage, "p1\np2\n", by_patient=True)
    assert current(settings, BY_PATIENT) == current(settings, BY_PATIENT, charged=True)
    settings.exclusions_of(manifest(**BY_PATIENT).digest).write_text(kept)
    with pytest.raises(DataError, match="not whole"):
        current(settings, BY_PATIENT, charged=True)


def test_no_run_begins_on_a_list_that_ends_within_a_line(stage: Stage) -> None:
    settings = listed(stage, "p1\np2", by_patient=True)
    with pytest.raises(DataError, match="whole line"):
        current(settings, BY_PATIENT)
    assert "whole line" in exclusions_of(settings)[0].problem
    (stage.node / "excluded.txt").write_text("p1\np2\n")
    assert current(settings, BY_PATIENT).names == {"p1", "p2"}


def test_a_run_that_began_before_there_was_a_list_goes_on_without(stage: Stage) -> None:
    settings = settings_of(party_node(stage.node))
    assert current(settings, EVERYONE, charged=True).names == frozenset()
    assert current(settings, EVERYONE).names == frozenset()
    listed(stage, "")
    exclude(settings_of(party_node(stage.node)), ["3"])
    assert current(settings_of(party_node(stage.node)), EVERYONE, charged=True).names == frozenset()


@pytest.mark.parametrize("wrong", [None, "\xff", "x" * 2000, "3\n"])
def test_without_the_list_that_is_named_no_run_begins(stage: Stage, wrong: str | None) -> None:
    settings = listed(stage, wrong)
    if wrong == "\xff":
        (stage.node / "excluded.txt").write_bytes(b"\xff")
    assert Shelf(settings).seals[""].sealed() is None
    (found,) = exclusions_of(settings)
    assert found.problem
    found_by_doctor = {each.check: each for each in examine(stage.node)}["excluded"]
    assert found_by_doctor.state == FAILED
    (stage.node / "excluded.txt").write_text("")
    assert Shelf(settings).seals[""].sealed() is not None


def test_lines_are_added_and_what_is_there_stays(stage: Stage) -> None:
    settings = listed(stage, "# objected on Monday\np1", by_patient=True)
    path = stage.node / "excluded.txt"
    path.chmod(0o644)
    found = exclude(settings, ["p2", "#odd", "p1", "nobody"])
    assert path.read_text() == "# objected on Monday\np1\np2\n #odd\nnobody\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (found.listed, found.matched, found.missing) == (4, 2, ("#odd", "nobody"))
    assert "2 were not found: #odd, nobody" in found.summary
    for given in (["a\nb"], [""], ["x" * 1001]):
        with pytest.raises(DataError):
            exclude(settings, given)
    with pytest.raises(NodeError, match="no data set"):
        exclude(settings, ["p1"], "staff")
    (stage.node / "excluded.txt").unlink()
    assert exclude(settings, ["p5"]).matched == 1


def test_numbers_say_of_which_files_they_are(stage: Stage) -> None:
    settings = listed(stage)
    for given in ("0", "01", "p1", "1.0", "-1", "\u0661"):
        with pytest.raises(DataError, match="no record's number"):
            exclude(settings, [given])
    found = exclude(settings, ["7", "301"])
    assert (found.matched, found.missing) == (1, ("301",))
    sealed = Shelf(settings).seals[""].sealed()
    assert sealed is not None
    assert (stage.node / "excluded.txt").read_text() == f"# record numbers of {files_mark(sealed.seal.files)}\n7\n301\n"
    assert read_holding(settings.data[0].schema).unit is None


def test_what_a_list_means_is_kept_until_it_or_the_records_change(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = listed(stage, "p1\n", by_patient=True)
    (first,) = exclusions_of(settings)
    kept = settings.state / "excluded.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with monkeypatch.context() as patched:
        patched.setattr("parley.party.seal.Sealed.read", lambda *_: pytest.fail("the records are read again"))
        assert exclusions_of(settings) == [first]
    (stage.node / "excluded.txt").write_text("p1\np2\n")
    assert exclusions_of(settings)[0].matched == 2
    kept.write_text("{")
    assert exclusions_of(settings)[0].matched == 2


def test_a_node_without_a_list_is_told_how_to_name_one(stage: Stage) -> None:
    settings = settings_of(party_node(stage.node))
    assert exclusions_of(settings) == []
    with pytest.raises(NodeError, match=r'excluded = "excluded\.txt"'):
        exclude(settings, ["1"])


def test_the_doctor_says_what_the_list_means(stage: Stage) -> None:
    listed(stage, "p1\n", by_patient=True)
    found = {each.check: each for each in examine(stage.node)}["excluded"]
    assert (found.state, found.problem.startswith("1 of 1")) == (OK, True)
    (stage.node / "excluded.txt").write_text("p1\nnobody\n")
    assert {each.check: each for each in examine(stage.node)}["excluded"].state == WARNING


@pytest.mark.usefixtures("verified_in_process")
def test_a_running_node_answers_without_the_excluded_and_tells_nobody(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = listed(stage, "p3\np4\n", by_patient=True)
    made = manifest(**BY_PATIENT)
    stage.offer(made)
    with Running(stage):
        until(lambda: stage.coordinator.joins)
        stage.coordinator.ask(question(made, 0, (np.full(3, 0.3),)))
        first = stage.opened(0).tolist()
        # What is accounted knows nothing of the list: the same charge, and the same content of the population.
        book = ledger(stage)
        assert book.runs["heart-1"].charge == verified(made.canonical, PARTY.name, Policy())[1]
        book.close()
        exclude(settings, ["p5"])
        assert under_way(settings) == ["heart-1"]
    with Running(stage):  # another process goes on with the list that the run began with
        point = np.full(3, 0.3)
        stage.coordinator.ask(question(made, 1, (point, point)))
        stage.opened(1)
        outbox = Outbox(settings.outbox)
        assert {held.state for held in outbox.runs()} == {"joined"}
        outbox.close()
        assert settings.exclusions_of(made.digest).read_text() == "p3\np4\n# names in all: 2\n"
        stage.finish(stage.ends(made, 2))
        until(lambda: not settings.exclusions_of(made.digest).exists())
    assert first == answer(settings, BY_PATIENT, type(current(settings, BY_PATIENT))(frozenset({"p3", "p4"})))
    told = settings.trail.read_text() + "".join(capfd.readouterr()) + repr(stage.coordinator.joins)
    for each in ("exclu", "p3", "p4", "p5"):
        assert each not in told


def test_a_node_toml_that_names_a_list_is_read_and_written(stage: Stage) -> None:
    listed(stage, "")
    node = party_node(stage.node)
    assert node.data[0].excluded == stage.node / "excluded.txt"
    write_party(stage.node, data=node.data)
    assert party_node(stage.node).data == node.data
    assert seal_node(stage.node).fits


def test_the_list_is_a_plain_file_below_the_nodes_folder_or_anywhere(stage: Stage, tmp_path: Path) -> None:
    listed(stage, None)
    (stage.node / "excluded.txt").symlink_to(tmp_path / "elsewhere.txt")
    (tmp_path / "elsewhere.txt").write_text("")
    assert Shelf(settings_of(party_node(stage.node))).seals[""].sealed() is not None
