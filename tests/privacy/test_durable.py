"""Small files are whole or as they were."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parley.privacy.durable import replace_durably


def test_a_file_is_replaced_whole_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "head"
    path.write_text("old")
    path.chmod(0o644)
    replace_durably(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["head"]


def test_text_that_comes_in_pieces_is_there_when_all_of_it_came(tmp_path: Path) -> None:
    path = tmp_path / "rows"

    def pieces(count: int) -> Iterator[str]:
        for number in range(count):
            assert not path.exists()
            yield f"{number}\n"
        if count > 2:
            raise ValueError("the rest is not there")

    with pytest.raises(ValueError, match="the rest"):
        replace_durably(path, pieces(3))
    assert not list(tmp_path.iterdir())
    replace_durably(path, pieces(2))
    assert path.read_text() == "0\n1\n"


def test_what_cannot_be_written_leaves_the_old_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "head"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(os, "fsync", full)
        replace_durably(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["head"]


def test_what_a_crash_left_and_links_of_others_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "head.new").symlink_to(tmp_path / "elsewhere")
    replace_durably(tmp_path / "head", "new")
    assert (tmp_path / "head").read_text() == "new"
    assert (tmp_path / "elsewhere").read_text() == "untouched"


def test_two_writers_at_once_never_take_each_others_half(tmp_path: Path) -> None:
    path, texts = tmp_path / "seal", {letter * 200_000 for letter in "ab"}
    replace_durably(path, "a" * 200_000)

    def write(text: str) -> None:
        for _ in range(20):
            replace_durably(path, text)

    with ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(write, text) for text in texts]
        while not all(each.done() for each in writers):
            assert path.read_text() in texts
        for each in writers:
            each.result()
    assert [each.name for each in tmp_path.iterdir()] == ["seal"]


def test_what_a_crash_left_is_removed_later(tmp_path: Path) -> None:
    path, left = tmp_path / "seal", tmp_path / ".seal.abc.new"
    left.write_text("half")
    replace_durably(path, "whole")
    assert left.exists()
    os.utime(left, (0, 0))
    replace_durably(path, "whole")
    assert not left.exists()
