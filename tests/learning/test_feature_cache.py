"""Features are kept as records are, found again by what they follow from, and gone with the run."""

import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from parley.learning import features
from parley.learning.feature_cache import FeatureCache, erase
from parley.learning.readers import Dense
from parley.learning.records import encode
from parley.learning.rows import DenseRows
from parley.learning.schema import Schema
from tests.learning.test_features import SCATTERING, images, schema_of


class Counted:
    """How often features were computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times, kept = 0, features.raw_features

        def counted(*given: object) -> object:
            self.times += 1
            return kept(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(features, "raw_features", counted)


def rows(cache: FeatureCache, schema: Schema | None = None, seed: int = 0, count: int = 5) -> DenseRows:
    data = Dense(images(count, seed), np.zeros(count, np.int64))
    found = encode(data, schema or schema_of(), cache=cache).rows
    assert isinstance(found, DenseRows)
    return found


def test_a_second_reading_finds_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, cache = Counted(monkeypatch), FeatureCache(tmp_path / "features" / "run")
    first, second = rows(cache), rows(cache)
    assert counted.times == 1
    assert np.array_equal(first.values, second.values)
    assert first.values.dtype == second.values.dtype
    assert np.array_equal(first.norms.squared, second.norms.squared)


def test_a_disk_is_not_filled_up_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger and an outbox are written on it: features are computed again instead."""
    counted, cache = Counted(monkeypatch), FeatureCache(tmp_path / "features" / "run")
    size = rows(FeatureCache(tmp_path / "elsewhere")).values.nbytes
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=2 * size - 1))
    assert np.array_equal(rows(cache).values, rows(cache).values)
    assert counted.times == 3
    assert list((tmp_path / "features" / "run").iterdir()) == []


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        rows(FeatureCache(tmp_path / "features" / "run"))
    finally:
        os.umask(before)
    (file,) = (tmp_path / "features" / "run").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (tmp_path / "features", tmp_path / "features" / "run"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_other_records_transforms_or_versions_are_other_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, cache = Counted(monkeypatch), FeatureCache(tmp_path / "run")
    rows(cache)
    rows(cache, seed=1)
    rows(cache, count=4)  # one record was left out
    rows(cache, schema_of({**SCATTERING, "groups": 1}))
    rows(cache, schema_of(bits=5))
    rows(cache, schema_of(intercept=False))
    monkeypatch.setattr("parley.learning.feature_cache.VERSION", "parley features 0")
    rows(cache)
    assert counted.times == 7
    rows(cache)
    assert counted.times == 7


def test_what_was_altered_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, cache = Counted(monkeypatch), FeatureCache(tmp_path / "run")
    first = rows(cache)
    (file,) = cache.folder.iterdir()
    whole = file.read_bytes()
    for place, altered in enumerate((whole[:-1], whole + b"x", bytes([whole[0] ^ 1]) + whole[1:], b""), 2):
        file.write_bytes(altered)
        assert np.array_equal(rows(cache).values, first.values)
        assert counted.times == place
    file.unlink()
    (tmp_path / "elsewhere").write_bytes(whole)
    file.symlink_to(tmp_path / "elsewhere")
    rows(cache)
    assert counted.times == 6


def test_a_pipe_in_their_place_is_not_waited_for(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "run")
    rows(cache)
    (file,) = cache.folder.iterdir()
    file.unlink()
    os.mkfifo(file)
    rows(cache)


def test_two_runs_share_a_file_until_the_last_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    one, two = (FeatureCache(tmp_path / "features" / name) for name in ("one", "two"))
    rows(one)
    rows(two)
    assert counted.times == 1
    assert next(one.folder.iterdir()).samefile(next(two.folder.iterdir()))
    one.erase()
    assert not one.folder.exists()
    rows(two)
    assert counted.times == 1
    two.erase()
    assert list((tmp_path / "features").iterdir()) == []


def test_a_disk_that_refuses_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    assert len(rows(FeatureCache(tmp_path / "run"))) == 5


def test_erasing_leaves_what_is_no_feature(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path / "run")
    rows(cache)
    (cache.folder / "note.txt").write_text("mine")
    erase(cache.folder)
    assert [each.name for each in cache.folder.iterdir()] == ["note.txt"]
    erase(tmp_path / "never")
