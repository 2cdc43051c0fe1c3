"""The answer is the same to the bit for any number of workers, whatever goes wrong in between; or the run is left."""

import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.compute import engine as engine_module
from parley.compute.cluster import Cluster
from parley.compute.engine import RayEngine, is_answer
from parley.compute.errors import ComputeError, EngineStoppedError, WorkerFailedError
from parley.compute.questions import Question
from parley.compute.shards import Asked
from parley.learning.encoding import Scale
from parley.learning.errors import QueryError
from parley.mpc.ring import Lattice
from parley.party.errors import AskAgainError
from parley.party.run import contribution
from parley.privacy.clipping import Terms
from tests.support import foremen
from tests.support.computed import KINDS, Setting, answers, require_equal, setting


def command(fault: str, folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-P", foremen.__file__, fault, str(folder / "mark"))


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_any_number_of_workers_answers_as_one_process_does(tmp_path: Path, kind: str, workers: int) -> None:
    given = setting(kind, momentum=workers != 2)
    engine = given.engine(Cluster(workers=workers), command=command("none", tmp_path))
    try:
        require_equal(given, answers(given, engine))
        assert engine.workers == workers
    finally:
        engine.close()


@pytest.mark.parametrize("fault", ["gone", "twice", "earlier", "length", "run", "worker", "long", "lost"])
def test_what_goes_wrong_makes_an_answer_late_and_never_wrong(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "FIRST_PAUSE", 0.01)
    given = setting("logistic")
    heard: list[str] = []
    engine = given.engine(
        Cluster(workers=2), command=command(fault, tmp_path), say=lambda error: heard.append(str(error))
    )
    try:
        assert answers(given, engine) == answers(given)
    finally:
        engine.close()
    assert (tmp_path / "mark").exists()
    assert heard, "its operator is told"


@pytest.mark.parametrize("fault", ["crash", "never"])
def test_what_cannot_be_computed_at_all_ends_the_run_for_this_party(tmp_path: Path, fault: str) -> None:
    given = setting("logistic")
    engine = given.engine(Cluster(workers=2), command=command(fault, tmp_path))
    try:
        with pytest.raises(WorkerFailedError):
            answers(given, engine)
    finally:
        engine.close()


def test_a_party_that_is_to_end_does_not_wait_for_its_cluster(tmp_path: Path) -> None:
    given, stop = setting("logistic"), threading.Event()
    engine = given.engine(Cluster(workers=1), command=(sys.executable, "-c", "pass"), stop=stop)
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(EngineStoppedError):
        answers(given, engine)
    engine.close()


def test_a_cluster_that_is_away_for_long_lets_the_party_ask_whether_the_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question may come again: it is then answered over the same batch."""
    monkeypatch.setattr(engine_module, "FIRST_PAUSE", 0.01)
    given = setting("logistic")
    engine = given.engine(Cluster(workers=1), command=(sys.executable, "-c", "pass"), away_seconds=0.5)
    contributor, asked = given.contributor(engine), given.queries()[0]
    length = given.model.dimension
    try:
        for _ in range(2):
            with pytest.raises(AskAgainError):
                contribution(contributor, asked, length)
        engine.command = command("none", tmp_path)
        found = contribution(contributor, asked, length)
        assert found is not None
        assert found.tolist() == answers(given)[0]
        assert engine.busy_seconds is not None
        with pytest.raises(QueryError, match="answered already"):
            contributor.contribution(asked)
    finally:
        engine.close()


def test_an_answer_leaves_no_sooner_than_its_slot(tmp_path: Path) -> None:
    given = setting("logistic")
    engine = given.engine(Cluster(workers=2), command=command("none", tmp_path))
    contributor = given.contributor(engine)
    try:
        for query in given.queries()[:2]:
            contributor.contribution(query)
        engine.slots.seconds = dict.fromkeys(engine.slots.seconds, 0.4)
        began = time.monotonic()
        contributor.contribution(given.queries()[2])
        assert time.monotonic() - began >= min(engine.slots.seconds.values())
    finally:
        engine.close()


def test_workers_that_compute_other_integers_of_public_rows_are_not_asked_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, stop = setting("logistic"), threading.Event()
    heard: list[str] = []

    def say(error: ComputeError) -> None:
        heard.append(str(error))
        stop.set()

    asked: list[str] = []
    usual = RayEngine._ask

    def other(self: RayEngine, names: list[int], of: str, *rest: Any) -> dict[int, Any]:
        asked.append(of)
        found = usual(self, names, of, *rest)
        return {name: answer + name if answer is not None else None for name, answer in found.items()}

    monkeypatch.setattr(RayEngine, "_ask", other)
    engine = given.engine(Cluster(workers=2), command=command("none", tmp_path), stop=stop, say=say)
    with pytest.raises(EngineStoppedError):
        answers(given, engine)
    engine.close()
    assert set(asked) == {"public"}
    assert "other integers" in heard[0]


def test_a_vector_longer_than_so_many_records_can_make_is_no_answer() -> None:
    question = Question("gradients", Lattice(1.0), Scale(0.1, 100), Terms(0.0, 1.0, 1.0, 1.0))
    echo = {"run": "a", "number": 1, "worker": 0}
    reply = {"state": "done", "echo": echo}
    present = np.array([True, True, False])
    assert is_answer(reply, echo, np.array([200, 0]), present, question)
    assert not is_answer(reply, echo, np.array([200, 1]), present, question)
    assert not is_answer(reply, echo, np.array([np.iinfo(np.int64).min, 0]), present, question)
    assert not is_answer({**reply, "echo": {**echo, "worker": 1}}, echo, np.array([0, 0]), present, question)
    assert not is_answer({**reply, "state": "lost"}, echo, np.array([0, 0]), present, question)
    assert is_answer(reply, echo, np.array([0, 0]), np.zeros(3, np.bool_), question)
    assert not is_answer(reply, echo, np.array([1, 0]), np.zeros(3, np.bool_), question)


def test_a_worker_is_told_no_more_than_public_lengths(tmp_path: Path) -> None:
    """However the batch falls on the shards, all lists of a run are of one length."""
    given: Setting = setting("logistic")
    lengths = set()
    usual = RayEngine._ask

    def watched(self: RayEngine, names: Any, of: str, question: Question, points: Any, asked: Asked, *rest: Any) -> Any:
        lengths.add(asked.places.shape)
        return usual(self, names, of, question, points, asked, *rest)

    engine = given.engine(Cluster(workers=4), command=command("none", tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RayEngine, "_ask", watched)
        answers(given, engine)
    engine.close()
    assert len(lengths) == 1
