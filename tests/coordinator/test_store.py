"""Runs on disk: what the coordinator has to know after a crash, each step whole or not at all."""

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.coordinator.errors import StateError
from parley.coordinator.store import RoundRecord, RunStore, State, pack, unpack

RUN = b"\x01" * 32
RECORD = RoundRecord(
    round=0,
    at=1.0,
    seconds=0.5,
    waited_seconds=0.1,
    agreed_seconds=0.1,
    noised_seconds=0.1,
    stepped_seconds=0.1,
    contributors=["hospital-a", "hospital-b"],
    missing=["hospital-c"],
    estimator_norm=1.0,
    noise_norm=0.5,
    bytes_down=100,
    bytes_up=200,
    evaluation={"loss": 0.5},
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "runs.sqlite")
    made.submit(RUN, "heart-1", b"manifest")
    yield made
    made.close()


def state_of(store: RunStore) -> Any:
    return store.find("heart-1")


def test_a_runs_name_is_used_once_and_the_same_manifest_again_changes_nothing(store: RunStore) -> None:
    store.set_state(RUN, State.running)
    store.submit(RUN, "heart-1", b"manifest")
    assert [row.state for row in store.runs()] == [State.running]
    words = """that one is running since .*, and a run's name can be used only once: .*, such as run = "heart-2"$"""
    with pytest.raises(StateError, match=words):
        store.submit(b"\x02" * 32, "heart-1", b"other")
    assert store.get(b"\x02" * 32) is None


def test_a_run_that_is_not_there_is_named_with_those_that_are(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no run 'heart-2' on this coordinator: it has heart-1"):
        store.find("heart-2")
    empty = RunStore(tmp_path / "empty.sqlite")
    with pytest.raises(StateError, match="it has none"):
        empty.find("heart-2")
    empty.close()


def test_a_run_of_an_earlier_version_is_kept_and_not_shown(store: RunStore) -> None:
    store.submit(b"\x02" * 32, "old", b"parley manifest 1\n{}")
    assert [row.run for row in store.runs()] == ["heart-1"]
    with pytest.raises(StateError, match="of an earlier version"):
        store.find("old")


def test_a_run_starts_once_and_has_an_end_only_while_it_rests(store: RunStore) -> None:
    store.set_state(RUN, State.running)
    began = state_of(store).started
    assert began is not None
    store.set_state(RUN, State.stalled, "a server is away")
    assert (state_of(store).outcome, state_of(store).ended is None) == ("a server is away", False)
    store.set_state(RUN, State.running)
    assert (state_of(store).started, state_of(store).ended, state_of(store).outcome) == (began, None, "")


@pytest.mark.parametrize("state", State)
def test_a_run_rests_where_nothing_happens_by_itself(state: State) -> None:
    final = state in ("finished", "failed", "refused")
    resumable = state in ("stalled", "stopped")
    assert (state.final, state.resumable, state.resting) == (final, resumable, final or resumable)


def test_a_round_begins_with_the_record_of_the_one_before_and_only_its_own_points(store: RunStore) -> None:
    assert store.question(RUN) is None
    store.advance(RUN, 0, b"q0", {b"p": b"P", b"r": b"R"}, b"c0", None)
    assert store.question(RUN) == (0, b"q0", {b"p": b"P", b"r": b"R"}, b"c0")
    store.advance(RUN, 1, b"q1", {b"r": b"R"}, b"c1", RECORD, [b"word a", b"word b"])
    assert store.question(RUN) == (1, b"q1", {b"r": b"R"}, b"c1")
    assert store.history(RUN) == [RECORD]
    assert store.statements(RUN) == [b"word a", b"word b"]


def test_a_run_does_not_go_back_and_what_was_refused_left_nothing(store: RunStore) -> None:
    store.advance(RUN, 2, b"q2", {b"p": b"P"}, b"c2", None)
    with pytest.raises(StateError, match="two processes share one state folder"):
        store.advance(RUN, 1, b"q1", {b"x": b"X"}, b"c1", RECORD, [b"word"])
    assert store.question(RUN) == (2, b"q2", {b"p": b"P"}, b"c2")
    assert (store.history(RUN), store.statements(RUN)) == ([], [])
    store.advance(RUN, 2, b"q2", {b"p": b"P"}, b"c2", None)  # the same again, after a crash


def test_the_result_ends_the_questions_and_stays_after_a_restart(store: RunStore, tmp_path: Path) -> None:
    store.advance(RUN, 0, b"q0", {b"p": b"P"}, b"c0", None)
    assert store.theta(RUN) is None
    theta = np.array([1.0, -0.0, 1e-300])
    store.finish(RUN, theta, {"loss": 0.25}, RECORD, [b"a", b"b"])
    store.close()
    again = RunStore(tmp_path / "runs.sqlite")
    found = again.theta(RUN)
    assert found is not None
    assert found.tobytes() == theta.tobytes()
    assert again.question(RUN) is None
    row = state_of(again)
    assert (row.state, row.round, row.evaluation) == (State.ending, 1, {"loss": 0.25})
    assert again.history(RUN) == [RECORD]
    again.close()


def test_history_is_in_order_and_cut_at_either_end(store: RunStore) -> None:
    for index in range(5):
        store.advance(RUN, index + 1, b"q", {}, b"c", replace(RECORD, round=index), [b"%d" % index])
    store.advance(RUN, 5, b"q", {}, b"c", replace(RECORD, round=4, at=9.0))  # said twice: the first stands
    assert [each.round for each in store.history(RUN)] == [0, 1, 2, 3, 4]
    assert [each.round for each in store.history(RUN, since=3)] == [3, 4]
    assert [each.round for each in store.history(RUN, last=2)] == [3, 4]
    assert store.history(RUN, since=4)[0].at == 1.0
    assert store.statements(RUN) == [b"4"]


def test_of_a_nodes_answers_the_last_counts_of_ends_the_first_of_admissions_the_newest(store: RunStore) -> None:
    store.answer(RUN, "hospital-a", "pending")
    store.answer(RUN, "hospital-a", "refused", "too many rounds")
    assert store.answers(RUN) == {"hospital-a": ("refused", "too many rounds")}
    for word in (b"first", b"second"):
        store.put_end(RUN, "north", word)
        store.put_admission(RUN, "north", word)
    assert store.ends(RUN) == {"north": b"first"}
    assert store.admissions(RUN) == {"north": b"second"}


def test_who_only_reads_cannot_write_and_does_not_make_the_file(store: RunStore, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "runs.sqlite").stat().st_mode) & 0o077 == 0
    reader = RunStore(tmp_path / "runs.sqlite", read_only=True)
    assert [row.run for row in reader.runs()] == ["heart-1"]
    with pytest.raises(Exception, match="readonly"):
        reader.set_claim(RUN, {})
    reader.close()
    with pytest.raises(StateError, match="cannot be opened"):
        RunStore(tmp_path / "nothing.sqlite", read_only=True)
    assert not (tmp_path / "nothing.sqlite").exists()


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"theta": np.arange(6.0).reshape(2, 3), "empty": np.zeros((0, 4)), "scalar": np.array(2.5)},
        {"turned": np.arange(6.0).reshape(2, 3).T},
    ],
)
def test_a_checkpoint_reads_back_bit_for_bit(arrays: dict[str, Any]) -> None:
    found = unpack(pack(arrays))
    assert list(found) == list(arrays)
    for name, value in arrays.items():
        assert found[name].shape == value.shape
        assert np.array_equal(found[name], value)
        assert found[name].flags.writeable  # an algorithm goes on with it


def test_examples_are_of_the_newest_round_and_an_earlier_version_kept_none(store: RunStore, tmp_path: Path) -> None:
    assert store.examples(RUN) is None
    store.put_examples(RUN, 3, [{"row": 1}])
    store.put_examples(RUN, 5, [{"row": 2}, {"row": 3}])
    assert store.examples(RUN) == (5, [{"row": 2}, {"row": 3}])
    with store._transaction() as database:
        database.execute("DROP TABLE examples")
    reader = RunStore(tmp_path / "runs.sqlite", read_only=True)
    assert reader.examples(RUN) is None
    reader.close()
