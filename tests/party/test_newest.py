"""The newest public models of a run, for its party's operator."""

from pathlib import Path

import numpy as np
import pytest

from parley.learning.contributor import Query
from parley.party import newest
from parley.party.newest import MOST_RUNS, Newest, newest_at


def query(index: int, points: int = 2) -> Query:
    return Query(index, tuple(np.arange(3.0) + place for place in range(points)), "framed gradient", 0.5)


def test_the_newest_question_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "newest" / "a.npz"
    assert newest_at(path) is None
    kept = Newest(path)
    kept.note(query(0, 12))
    found = newest_at(path)
    assert found is not None
    assert (found.round_index, found.kind, found.scale) == (0, "framed gradient", 0.5)
    assert [point[0] for point in found.points] == list(range(12))
    assert path.stat().st_mode & 0o777 == 0o600
    kept.note(query(1))  # within seconds of the last file: written at the end
    assert newest_at(path).round_index == 0  # type: ignore[union-attr]
    kept.write()
    assert newest_at(path).round_index == 1  # type: ignore[union-attr]


def test_a_few_runs_are_kept_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    for place in range(MOST_RUNS + 3):
        Newest(tmp_path / "newest" / f"{place}.npz").note(query(place))
    assert len(list((tmp_path / "newest").glob("*"))) == MOST_RUNS
    whole = (tmp_path / "newest" / f"{MOST_RUNS + 2}.npz").read_bytes()
    for data in (b"", b"PK", b"\x00" * 99, whole[:200], whole[:-1]):
        (tmp_path / "x.npz").write_bytes(data)
        assert newest_at(tmp_path / "x.npz") is None


def test_a_disk_that_is_full_and_points_that_are_too_many_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "newest").write_text("no folder")
    Newest(tmp_path / "newest" / "a.npz").note(query(0))
    monkeypatch.setattr(newest, "MOST_BYTES", 8)
    Newest(tmp_path / "other" / "a.npz").note(query(0))
    assert not (tmp_path / "other").exists()
