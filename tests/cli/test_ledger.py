"""`parley ledger`."""

import sqlite3
from dataclasses import replace
from pathlib import Path

from parley.privacy.accountants import accountant
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.filters import Cap, Charge, Cost, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from parley.privacy.sampling import FixedSize
from tests.support.ledger_commands import Parley


def ledger_at(path: Path) -> Ledger:
    ledger = Ledger.create(path, Policy())
    ledger.register("ward", ROW, Cap(1.0, 1e-5))
    event = Event((SampledGaussian(FixedSize(1000, 50), 4.0, 21),))
    ledger.reserve("run", "ward", Charge("m", event, ROW, EXACT, "pld", Cost(epsilon=0.3, delta=1e-6)))
    ledger.record("run", 0, "digest")
    return ledger


def test_show_and_verify_of_a_sound_ledger(parley: Parley, tmp_path: Path) -> None:
    head = ledger_at(tmp_path / "l").verify()
    shown = parley("ledger", "show", tmp_path / "l", "--json")
    assert shown.code == 0
    (population,), (run,) = shown.json["populations"], shown.json["runs"]
    assert (population["epsilon_spent"], population["epsilon_left"]) == (0.3, 0.7)
    assert (run["releases_charged"], run["releases_recorded"], run["ended"]) == (21, 1, False)
    assert shown.json["head"] == str(head)
    verified = parley("ledger", "verify", tmp_path / "l", "--anchor", head, "--json")
    assert verified.code == 0
    assert verified.json == {"intact": True, "entries": 4, "head": str(head), "anchored": True}
    shown = parley("ledger", "show", tmp_path / "l").output
    assert "epsilon 0.3 of 1 and delta 1e-06 of 1e-05 spent, 0.7 and 9e-06 left" in shown
    assert "1 of 21 released, open" in shown


def test_show_marks_what_was_charged_because_a_server_was_caught(parley: Parley, tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "l")
    lying = Cost(epsilon=0.3, delta=1e-6, epsilon_if_a_server_lies=1.5, delta_if_a_server_lies=1e-6)
    ledger.reserve("another", "ward", replace(ledger.runs["run"].charge, cost=lying))
    ledger.charge_for_cheating(["another"], "3f" * 32)
    ledger.close()
    body = parley("ledger", "show", tmp_path / "l", "--json").json
    (population,), (first, second) = body["populations"], body["runs"]
    assert (population["caught"], population["beyond_the_cap"], population["epsilon_left"]) == (1, True, 0)
    assert (first["caught"], second["caught"], second["epsilon"]) == ([], ["3f" * 32], 1.5)
    shown = parley("ledger", "show", tmp_path / "l").output
    assert "a server was caught cheating" in shown
    assert "BEYOND THE CAP, nothing more is admitted" in shown
    (line,) = [line for line in shown.splitlines() if "run another" in line]
    assert "epsilon 1.5 and delta 1e-06 charged; epsilon 1.5 at delta 1e-06 if a server lies; AT WHAT HOLDS" in line
    assert line.endswith(f"for one was caught (evidence {'3f' * 32})")
    assert parley("ledger", "verify", tmp_path / "l").code == 0


def test_verify_says_no_to_an_edit_and_to_another_anchor(parley: Parley, tmp_path: Path) -> None:
    head = ledger_at(tmp_path / "l").verify()
    wrong = parley("ledger", "verify", tmp_path / "l", "--anchor", f"{head.sequence}:{'0' * 64}", "--json")
    assert (wrong.code, wrong.json["intact"]) == (1, False)
    assert parley("ledger", "verify", tmp_path / "l", "--anchor", "yesterday").code == 1
    connection = sqlite3.connect(tmp_path / "l")
    connection.execute("DROP TRIGGER entries_never_go")
    connection.execute("DELETE FROM entries WHERE sequence = 4")
    connection.commit()
    connection.close()
    answer = parley("ledger", "verify", tmp_path / "l", "--json")
    assert (answer.code, answer.json["intact"]) == (1, False)
    assert parley("ledger", "show", tmp_path / "l").code == 2
    assert parley("ledger", "verify", tmp_path / "absent").code == 2


def test_recounting_finds_a_charge_that_was_too_small(parley: Parley, tmp_path: Path) -> None:
    event = Event((SampledGaussian(FixedSize(1000, 50), 4.0, 21),))
    due = accountant("pld").epsilon(event, 1e-6).epsilon
    for name, epsilon, code in (("right", due, 0), ("small", 0.9 * due, 1)):
        ledger = Ledger.create(tmp_path / name, Policy())
        ledger.register("ward", ROW, Cap(1.0, 1e-5))
        ledger.reserve("run", "ward", Charge("m", event, ROW, EXACT, "pld", Cost(epsilon=epsilon, delta=1e-6)))
        ledger.close()
        assert parley("ledger", "verify", tmp_path / name, "--recount").code == code
