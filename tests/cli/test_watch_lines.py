"""`parley watch` where its output goes to a file: what the log says, each line with its time."""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from parley.cli import watch_lines
from parley.cli.watch_lines import Lines, follow_plainly
from parley.coordinator.attendance import Gathering, by_answers
from parley.coordinator.operator_client import Presence
from parley.coordinator.store import RoundRecord, RunRow, RunStore, State
from parley.federation.manifest import Manifest
from parley.node.vigil import DISK_FULL, RESTARTED, SILENT, UNREACHABLE
from tests.support.folders import coordinator_folder, write_run

TIME = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ")


class Followed:
    """A run that has ended by the time that somebody looks."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    def follow(
        self, digest: bytes, since: int = 0, every_seconds: float = 0.0
    ) -> Iterator[tuple[RunRow, list[RoundRecord]]]:
        row = self.store.get(digest)
        assert row is not None
        yield row, self.store.history(digest)

    def presence_if_it_runs(self, row: RunRow) -> Presence | None:
        return None

    def gathering(self, row: RunRow, presence: Presence | None) -> Gathering | None:
        return None


def presence(
    *troubles: tuple[str, str, float],
    index: int = -1,
    uploaded: Sequence[str] = (),
    open_seconds: float = 0.0,
    until: float = 0.0,
) -> Presence:
    return Presence(index, frozenset(uploaded), frozenset(), open_seconds, troubles, until)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[RunStore, Manifest]]:
    state, document = coordinator_folder(tmp_path, 0)
    store = RunStore(state / "runs.sqlite")
    yield store, document
    store.close()


def row_of(store: RunStore) -> RunRow:
    return store.runs()[0]


def test_the_end_of_a_run_comes_after_its_rounds_and_every_line_is_one_with_its_time(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, None)
    store = RunStore(state / "runs.sqlite")
    write_run(store, document, document.releases, State.finished, "40 rounds")
    said: list[str] = []
    follow_plainly(said.append, Followed(store), document.digest)
    assert all(TIME.match(line) and "\n" not in line for line in said)
    last, end = (line[20:] for line in said)
    assert last.startswith("round 40/40, 3 parties present; public test: loss") or "missing" in last
    assert "left" not in last
    assert end == "heart-1 is finished: 40 rounds"
    store.close()


def test_who_is_waited_for_is_said_once_until_it_changes(run: tuple[RunStore, Manifest]) -> None:
    store, document = run
    store.set_state(document.digest, State.gathering)
    lines, until = Lines(), time.time() + 10_000

    def look() -> list[str]:
        row = row_of(store)
        here = presence(until=until)
        answered = {node: said for node, said in store.answers(document.digest).items() if node not in away}
        return lines.of(row, [], here, by_answers(document, answered, until))

    away = {"parley://cardio/aggregator/north", "parley://cardio/party/hospital-b"}
    first, second = look()
    assert first == "heart-1 is gathering"
    assert second.startswith("gathering: 2 of 3, waiting for aggregator north and hospital-b until ")
    assert look() == []
    away.remove("parley://cardio/aggregator/north")
    (line,) = look()
    assert line.startswith("gathering: 2 of 3, waiting for hospital-b until ")
    away.clear()
    assert look() == ["gathering: 3 of 3"]


def test_a_node_in_trouble_has_a_line_and_another_when_it_is_over(run: tuple[RunStore, Manifest]) -> None:
    store, _ = run
    lines, row = Lines(), row_of(store)
    assert lines.of(row, [], presence(), None) == ["heart-1 is running"]
    assert lines.of(row, [], presence(("south", SILENT, 2.5)), None) == ["south does not answer, for 2.5 s"]
    assert lines.of(row, [], presence(("south", SILENT, 3.5)), None) == []
    found = lines.of(row, [], presence(("south", UNREACHABLE, 4.0), ("hospital-b", DISK_FULL, 0.1)), None)
    assert found == ["south cannot be reached, for 4.0 s", "hospital-b has no space on its disk, for 100 ms"]
    found = lines.of(row, [], presence(("south", RESTARTED, 0.2), ("hospital-b", DISK_FULL, 1.0)), None)
    assert found == ["south was restarted"]
    assert lines.of(row, [], presence(), None) == ["hospital-b is well again"]


def test_a_coordinator_that_died_is_a_silent_node_too(run: tuple[RunStore, Manifest]) -> None:
    lines, row = Lines(), row_of(run[0])
    assert lines.of(row, [], None, None) == ["heart-1 is running", "the coordinator does not answer"]
    assert lines.of(row, [], None, None) == []
    assert lines.of(row, [], presence(), None) == ["the coordinator answers again"]


def test_a_round_that_is_long_in_coming_names_whom_it_waits_for_once(run: tuple[RunStore, Manifest]) -> None:
    lines, row = Lines(), row_of(run[0])
    lines.of(row, [], presence(), None)
    early = presence(index=3, uploaded=["hospital-a"], open_seconds=2.0)
    assert lines.of(row, [], early, None) == []
    late = presence(index=3, uploaded=["hospital-a", "hospital-c"], open_seconds=90.0)
    assert lines.of(row, [], late, None) == ["round 4/40 waits for hospital-b, for 1 min 30 s"]
    assert lines.of(row, [], late, None) == []


def test_of_rounds_about_twenty_have_a_line_and_every_one_that_took_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, document = coordinator_folder(tmp_path, 200)
    with_rounds = RunStore(state / "runs.sqlite", read_only=True)
    row, records = row_of(with_rounds), with_rounds.history(document.digest)
    lines = Lines()
    said = [line for each in records for line in lines.of(row, [each], presence(), None) if line.startswith("round")]
    assert watch_lines.LINES // 2 < len(said) <= watch_lines.LINES
    monkeypatch.setattr(watch_lines, "ROUND_SECONDS", 0.0)
    slow = Lines()
    said = [line for each in records for line in slow.of(row, [each], presence(), None) if line.startswith("round")]
    assert len(said) == 200
    with_rounds.close()
