"""The ledger: what it admits, what it refuses, and what lasts."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from parley.privacy import chain
from parley.privacy.errors import BudgetExceededError, LedgerRefusedError, PrivacyError
from parley.privacy.filters import Cap, Charge, Cost, Policy
from parley.privacy.finite_precision import EXACT
from parley.privacy.head import Head
from parley.privacy.ledger import EndProof, Ledger
from parley.privacy.mechanism import ROW
from tests.support.ledgers import BASIC, BY_RDP, CAP, EVENT, accepted, new, rows


def test_runs_are_charged_until_the_cap_and_the_refusal_says_what_is_left_and_what_fits(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    for index in range(3):
        ledger.reserve(f"run {index}", "ward", BASIC)
    with pytest.raises(
        BudgetExceededError, match=r"epsilon 0\.1 of 1 .* are left, the run needs 0\.3 .*calibrate --epsilon 0\.1"
    ):
        ledger.reserve("run 3", "ward", BASIC)
    spent = ledger.populations["ward"].spent
    assert spent.epsilon == pytest.approx(0.9)
    assert spent.delta == pytest.approx(3e-6)


def test_delta_has_a_cap_of_its_own(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    with pytest.raises(BudgetExceededError, match="delta 1e-05 of 1e-05"):
        ledger.reserve("run", "ward", Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=0.1, delta=2e-5)))


def test_ten_tenths_fit_one(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    for index in range(10):
        ledger.reserve(f"{index}", "ward", Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=0.1, delta=1e-6)))
    assert ledger.verify().sequence == 12


def test_a_run_that_comes_again_after_a_crash_is_charged_once_and_only_as_it_was(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("run", "ward", BASIC)
    ledger.reserve("run", "ward", BASIC)
    assert Ledger.open(tmp_path / "l").populations["ward"].spent.epsilon == 0.3
    with pytest.raises(LedgerRefusedError, match="another mechanism"):
        ledger.reserve("run", "ward", Charge("other", EVENT, ROW, EXACT, "pld", Cost(epsilon=0.1, delta=1e-6)))


def test_a_release_is_recorded_once_within_the_run_and_never_with_another_content(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    with pytest.raises(LedgerRefusedError, match="not admitted"):
        ledger.record("run", 0, "a")
    ledger.reserve("run", "ward", BASIC)
    ledger.record("run", 0, "a")
    ledger.record("run", 0, "a")
    with pytest.raises(LedgerRefusedError, match="another content"):
        ledger.record("run", 0, "b")
    for wrong in (21, -1, True):
        with pytest.raises(LedgerRefusedError, match="rounds 0 to 20"):
            ledger.record("run", wrong, "a")
    assert ledger.verify().sequence == 4


def test_what_a_loss_of_power_takes_is_releases_that_need_not_last_and_they_come_back_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new(tmp_path / "l")
    ledger.reserve("run", "ward", BASIC)
    ledger.close()
    shutil.copy(tmp_path / "l", tmp_path / "before")
    ledger = Ledger.open(tmp_path / "l")

    def release() -> Head:
        for index in range(3):
            ledger.record("run", index, f"{index}", lasting=False)
        return ledger._chain._last()

    was = release()
    assert ledger.runs["run"].recorded == {0: "0", 1: "1", 2: "2"}
    ledger.close()
    shutil.copy(tmp_path / "before", tmp_path / "l")
    ledger = Ledger.open(tmp_path / "l")
    assert ledger.runs["run"].recorded == {}
    assert release() == was
    events = []
    monkeypatch.setattr(chain, "replace_durably", lambda path, text: events.append(text.strip()))
    monkeypatch.setattr(os, "fsync", lambda file: events.append(os.readlink(f"/proc/self/fd/{file}")))
    ledger.reserve("another", "ward", BASIC)
    assert events == [str(tmp_path / "l-wal"), str(was), str(ledger._chain._last())]


def test_what_is_charged_always_lasts(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    with pytest.raises(LedgerRefusedError, match="has to last"), ledger._writing(lasting=False):
        ledger._append("reserve", {"run": "run", "population": "ward", "charge": BASIC.as_json()})
    ledger.reserve("run", "ward", BASIC)
    ledger.record("run", 0, "0", lasting=False)
    assert ledger._chain._connection.execute("PRAGMA synchronous").fetchone() == (1,)
    ledger.record("run", 1, "1")
    assert ledger._chain._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_mark_is_of_one_ledger(tmp_path: Path) -> None:
    """A seal says by it under whose salt its identity is: one of another ledger would recognise nobody here."""
    first, second = (Ledger.create(tmp_path / name, Policy()) for name in ("first.sqlite", "second.sqlite"))
    assert first.mark != second.mark
    assert Ledger.open(tmp_path / "first.sqlite").mark == first.mark


def test_caps_are_final_and_registering_again_is_harmless(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.register("ward", ROW, CAP, ledger.identity(rows(1000)))
    with pytest.raises(LedgerRefusedError, match="final"):
        ledger.register("ward", ROW, Cap(2.0, 1e-5))
    with pytest.raises(LedgerRefusedError, match="register it"):
        ledger.reserve("run", "elsewhere", BASIC)
    assert ledger.verify().sequence == 2


def test_two_writers_never_admit_more_than_one_budget(tmp_path: Path) -> None:
    new(tmp_path / "l").close()
    admitted: list[str] = []

    def writer(name: str) -> None:
        ledger = Ledger.open(tmp_path / "l")
        for index in range(8):
            try:
                ledger.reserve(f"{name} {index}", "ward", BASIC)
            except BudgetExceededError:
                return
            admitted.append(name)

    threads = [threading.Thread(target=writer, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 3
    assert Ledger.open(tmp_path / "l").populations["ward"].spent.epsilon == pytest.approx(0.9)


def test_a_head_that_cannot_be_written_loses_no_charge_and_stops_the_entry_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = new(tmp_path / "l")

    def full(path: Path, text: str) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(chain, "replace_durably", full)
        with pytest.raises(LedgerRefusedError, match="no space"):
            ledger.reserve("one", "ward", BASIC)
        with pytest.raises(LedgerRefusedError, match="no space"):
            ledger.reserve("two", "ward", BASIC)
    assert set(Ledger.open(tmp_path / "l").runs) == {"one"}
    ledger.reserve("one", "ward", BASIC)
    ledger.reserve("two", "ward", BASIC)
    assert Ledger.open(tmp_path / "l").populations["ward"].spent.epsilon == pytest.approx(0.6)


def test_a_failed_operation_leaves_the_ledger_usable(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    for _ in range(3):
        with pytest.raises(LedgerRefusedError):
            ledger.record("nobody", 0, "a")
    ledger.reserve("run", "ward", BASIC)
    assert ledger.verify().sequence == 3


class AnyOrder(RuleBasedStateMachine):
    """Operations at random, reopening included, against a model that is a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "l"
        self.ledger = new(self.path, Policy("rdp", 16))
        self.model: dict[str, tuple[float, set[int], bool]] = {}
        self.caught: set[str] = set()

    def attempt(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except PrivacyError:
            return False
        return True

    @rule(name=st.sampled_from("abcdef"))
    def reserve(self, name: str) -> None:
        done = self.attempt(lambda: self.ledger.reserve(name, "ward", BY_RDP))
        if name not in self.model:
            fits = sum(cost for cost, _, _ in self.model.values()) + 0.105 <= 1.0 - 0.5180
            assert done == fits
            if done:
                self.model[name] = (0.105, set(), False)
        else:
            assert done != self.model[name][2]

    @precondition(lambda self: self.model)
    @rule(name=st.sampled_from("abcdef"), index=st.integers(-1, 22))
    def record(self, name: str, index: int) -> None:
        done = self.attempt(lambda: self.ledger.record(name, index, f"digest {index}"))
        admitted = name in self.model and not self.model[name][2]
        assert done == (admitted and 0 <= index <= 20)
        if done:
            self.model[name][1].add(index)

    @precondition(lambda self: self.model)
    @rule(name=st.sampled_from("abcdef"), releases=st.integers(0, 21))
    def settle(self, name: str, releases: int) -> None:
        done = self.attempt(lambda: self.ledger.settle(EndProof(name, releases, "test", b""), accepted))
        if done:
            _, recorded, ended = self.model[name]
            assert not ended
            assert releases > max(recorded, default=-1)
            self.model[name] = (0.105 if name in self.caught else releases * 0.005, recorded, True)

    @precondition(lambda self: self.model)
    @rule(names=st.sets(st.sampled_from("abcdefgh")), evidence=st.sampled_from(["0" * 64, "1" * 64]))
    def catch(self, names: set[str], evidence: str) -> None:
        self.ledger.charge_for_cheating(names, evidence)
        assert self.ledger.charge_for_cheating(names, evidence) == ()
        for name in names & self.model.keys():
            self.caught.add(name)
            self.model[name] = (0.105, *self.model[name][1:])

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.path)

    @invariant()
    def what_was_spent_is_what_the_model_says(self) -> None:
        spent = self.ledger.populations["ward"].spent.rdp
        assert spent == pytest.approx(sum(cost for cost, _, _ in self.model.values()), abs=1e-12)

    def teardown(self) -> None:
        self.ledger.verify()
        self.ledger.close()
        self.directory.cleanup()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
