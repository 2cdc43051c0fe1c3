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
from parley.privacy.accountants import accountant
from parley.privacy.errors import BudgetExceededError, InvalidParameterError, LedgerRefusedError, PrivacyError
from parley.privacy.event import Event, NeighbouringRelation, SampledGaussian
from parley.privacy.filters import Cap, Charge, Cost, Policy, charge_of
from parley.privacy.finite_precision import EXACT
from parley.privacy.head import Head
from parley.privacy.ledger import EndProof, Ledger
from parley.privacy.mechanism import ROW, Mechanism, Unit
from parley.privacy.sampling import Poisson
from tests.privacy.ledgers import BASIC, BY_RDP, CAP, EVENT, accepted, new, rows


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


def test_only_a_proved_end_gives_back_and_the_basic_filter_gives_back_whole_runs_only(tmp_path: Path) -> None:
    def refused(proof: EndProof) -> None:
        raise LedgerRefusedError("the signature is not the aggregator's: ask it again")

    ledger = new(tmp_path / "l")
    ledger.reserve("unused", "ward", BASIC)
    ledger.reserve("used", "ward", BASIC)
    with pytest.raises(LedgerRefusedError, match="signature"):
        ledger.settle(EndProof("unused", 0, "counters", b"x"), refused)
    assert ledger.populations["ward"].spent.epsilon == 0.6
    ledger.settle(EndProof("unused", 0, "counters", b"x"), accepted)
    assert ledger.populations["ward"].spent.epsilon == 0.3
    ledger.record("used", 4, "a")
    with pytest.raises(LedgerRefusedError, match=r"round 4 .* on record"):
        ledger.settle(EndProof("used", 4, "counters", b"x"), accepted)
    ledger.settle(EndProof("used", 5, "counters", b"x"), accepted)
    assert ledger.populations["ward"].spent.epsilon == 0.3
    with pytest.raises(LedgerRefusedError, match="ended"):
        ledger.record("used", 5, "a")
    with pytest.raises(LedgerRefusedError, match="ended"):
        ledger.settle(EndProof("used", 5, "counters", b"x"), accepted)
    with pytest.raises(LedgerRefusedError, match="ended"):
        ledger.reserve("used", "ward", BASIC)


def test_the_rdp_filter_gives_back_the_rounds_that_were_not_released(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l", Policy("rdp", 16))
    ledger.reserve("run", "ward", BY_RDP)
    ledger.settle(EndProof("run", 5, "counters", b"x"), accepted)
    assert ledger.populations["ward"].spent.rdp == pytest.approx(0.025)
    # 16-RDP of R gives ε = R + log(15/16) − log(16·δ)/15 (Canonne, Kamath and Steinke 2020), here at δ = 1e-5.
    fitting = int((1.0 - 0.5180 - 0.025) / 0.105)
    for index in range(fitting):
        ledger.reserve(f"{index}", "ward", BY_RDP)
    with pytest.raises(BudgetExceededError, match=r"Renyi divergence .* would fit"):
        ledger.reserve("one more", "ward", BY_RDP)


def test_charges_computed_from_a_mechanism_fit_the_filter_they_were_made_for(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    pld = accountant("pld")
    basic = charge_of(mechanism, "north", 10, 1e-6, pld, EXACT, Policy())
    assert basic.cost.epsilon == pld.epsilon(mechanism.event("north"), 1e-6).epsilon
    renyi = charge_of(mechanism, "north", 10, 1e-6, pld, EXACT, Policy("rdp", 16))
    assert renyi.after(7).rdp == pytest.approx(renyi.cost.rdp / 3)
    assert renyi.after(0) == Cost()
    with pytest.raises(LedgerRefusedError, match="adds up by basic"):
        new(tmp_path / "a").reserve("run", "ward", renyi)
    with pytest.raises(LedgerRefusedError, match="adds up by rdp"):
        new(tmp_path / "b", Policy("rdp", 16)).reserve("run", "ward", basic)
    with pytest.raises(LedgerRefusedError, match="adds up by rdp"):
        new(tmp_path / "c", Policy("rdp", 8)).reserve("run", "ward", renyi)


def test_rows_are_refused_where_patients_are_kept_and_patients_are_fine_where_rows_are(tmp_path: Path) -> None:
    by_patient = Charge("m", EVENT, Unit("patient"), EXACT, "pld", BASIC.cost)
    patients = new(tmp_path / "patients", unit=Unit("patient"))
    with pytest.raises(LedgerRefusedError, match="kept by patient and the run protects single rows"):
        patients.reserve("run", "ward", BASIC)
    with pytest.raises(LedgerRefusedError, match="column doctor"):
        patients.reserve("run", "ward", Charge("m", EVENT, Unit("doctor"), EXACT, "pld", BASIC.cost))
    patients.reserve("run", "ward", by_patient)
    new(tmp_path / "rows").reserve("run", "ward", by_patient)


def test_budgets_are_kept_under_replace_one_only(tmp_path: Path) -> None:
    event = Event((SampledGaussian(Poisson(9, 3, 9), 4.0, 1),), NeighbouringRelation.ADD_OR_REMOVE)
    with pytest.raises(LedgerRefusedError, match="replace-one"):
        new(tmp_path / "l").reserve("run", "ward", Charge("m", event, ROW, EXACT, "pld", BASIC.cost))


def test_a_population_is_found_again_by_its_content_renamed_reordered_or_slightly_changed(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    assert ledger.find(ledger.identity(reversed(rows(1000)))) == "ward"
    assert ledger.find(ledger.identity(rows(1000) + rows(3))) == "ward"
    assert ledger.find(ledger.identity(rows(1000, start=10))) == "ward"
    assert ledger.find(ledger.identity(rows(400))) == "ward"
    assert ledger.find(ledger.identity(rows(5000))) == "ward"
    assert ledger.find(ledger.identity(rows(1000, start=5000))) is None
    large = Ledger.create(tmp_path / "large", Policy())
    large.register("city", ROW, CAP, large.identity(rows(60_000)))
    assert large.find(large.identity(rows(300, start=1000))) == "city"
    assert large.find(large.identity(rows(70_000, start=3000))) == "city"
    assert large.find(large.identity(rows(60_000, start=58_000))) is None
    with pytest.raises(LedgerRefusedError, match="those of population ward"):
        ledger.register("renamed", ROW, CAP, ledger.identity(rows(1000, start=10)))
    ledger.declare_apart("others", "Ada Osei")
    ledger.register("others", ROW, CAP, ledger.identity(rows(1000, start=5000)))
    with pytest.raises(LedgerRefusedError, match="not of ward"):
        ledger.extend("ward", ledger.identity(rows(1000, start=5001)))
    ledger.extend("ward", ledger.identity(rows(100, start=20_000)))
    assert Ledger.open(tmp_path / "l").find(ledger.identity(rows(90, start=20_000))) == "ward"


def test_a_mark_is_of_one_ledger(tmp_path: Path) -> None:
    """A seal says by it under whose salt its identity is: one of another ledger would recognise nobody here."""
    first, second = (Ledger.create(tmp_path / name, Policy()) for name in ("first.sqlite", "second.sqlite"))
    assert first.mark != second.mark
    assert Ledger.open(tmp_path / "first.sqlite").mark == first.mark


def test_all_data_are_one_population_until_somebody_answers_for_it_that_they_are_not(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    others = ledger.identity(rows(1000, start=5000))
    with pytest.raises(LedgerRefusedError, match="keeps the budget of ward, and others would be a fresh one"):
        ledger.register("others", ROW, CAP, others)
    with pytest.raises(InvalidParameterError, match="whoever answers"):
        ledger.declare_apart("others", " ")
    ledger.declare_apart("others", "Ada Osei")
    with pytest.raises(LedgerRefusedError, match="those of population ward"):  # no declaration makes these others
        ledger.register("others", ROW, CAP, ledger.identity(rows(1000, start=10)))
    ledger.close()
    ledger = Ledger.open(tmp_path / "l")
    ledger.register("others", ROW, CAP, others)
    with pytest.raises(LedgerRefusedError, match="nothing to declare"):
        ledger.declare_apart("others", "Ada Osei")
    assert ledger.declared_apart == {"others"}
    ledger.verify()


def test_content_digests_are_salted_so_that_they_cannot_be_tried_elsewhere(tmp_path: Path) -> None:
    one, other = new(tmp_path / "a"), new(tmp_path / "b")
    assert one.identity(rows(5)).digest != other.identity(rows(5)).digest


def test_caps_are_final_and_registering_again_is_harmless(tmp_path: Path) -> None:
    ledger = new(tmp_path / "l")
    ledger.register("ward", ROW, CAP, ledger.identity(rows(1000)))
    with pytest.raises(LedgerRefusedError, match="final"):
        ledger.register("ward", ROW, Cap(2.0, 1e-5))
    with pytest.raises(LedgerRefusedError, match="register it"):
        ledger.reserve("run", "elsewhere", BASIC)
    assert ledger.verify().sequence == 2


def test_the_filter_is_fixed_for_life(tmp_path: Path) -> None:
    new(tmp_path / "l").close()
    with pytest.raises(LedgerRefusedError, match="exists already"):
        Ledger.create(tmp_path / "l", Policy("rdp", 16))
    assert Ledger.open(tmp_path / "l").policy == Policy()


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


@pytest.mark.parametrize(
    ("policy", "charge"),
    [
        (Policy(), Charge("m", EVENT, ROW, EXACT, "pld", Cost())),
        (Policy(), Charge("m", EVENT, ROW, EXACT, "pld", Cost(epsilon=0.1))),
        (Policy("rdp", 16), Charge("m", EVENT, ROW, EXACT, "rdp at order 16", Cost(rdp=0.01), ((21, 0.005),))),
        (Policy("rdp", 16), Charge("m", EVENT, ROW, EXACT, "rdp at order 16", Cost(rdp=0.05), ((10, 0.005),))),
        (Policy("rdp", 16), Charge("m", EVENT, ROW, EXACT, "rdp at order 16", Cost(), ((21, 0.0),))),
    ],
)
def test_a_charge_that_does_not_follow_from_its_event_is_refused(
    tmp_path: Path, policy: Policy, charge: Charge
) -> None:
    with pytest.raises(LedgerRefusedError, match="does not follow"):
        new(tmp_path / "l", policy).reserve("run", "ward", charge)


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


# --- Hands on the file -------------------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Operations at random, reopening included, against a model that is a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "l"
        self.ledger = new(self.path, Policy("rdp", 16))
        self.model: dict[str, tuple[float, set[int], bool]] = {}

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
            self.model[name] = (releases * 0.005, recorded, True)

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
