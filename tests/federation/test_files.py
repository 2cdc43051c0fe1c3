"""The one strict reader of files that people write."""

import os
from pathlib import Path

import pytest

from parley.federation.files import endless, toml_file


class WrongError(Exception):
    """The caller's own."""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a = ", "is not TOML, correct the syntax"),
        (b'a = "\xff"', "is not TOML, correct the syntax"),
        (b"a = " + b"9" * 5000, "is not TOML, correct the syntax"),
        (b"a = " + b"[" * 5000, "is nested too deep"),
        (b"#" * 1025, "is over 1 KiB: shorten it"),
        (None, "cannot be read .*: write it"),
    ],
)
def test_what_a_file_must_not_hold_is_refused_in_the_callers_words(
    tmp_path: Path, data: bytes | None, reason: str
) -> None:
    path = tmp_path / "node.toml"
    if data is not None:
        path.write_bytes(data)
    most = 1 << 10 if data is None or data.startswith(b"#") else 1 << 16
    with pytest.raises(WrongError, match=reason):
        toml_file(path, WrongError, "write it", most)


def test_a_file_is_its_table(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('role = "party"\n[data]\nfiles = ["a"]\n')
    assert toml_file(path, WrongError) == {"role": "party", "data": {"files": ["a"]}}


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(WrongError, match="is no regular file: give one"):
            toml_file(path, WrongError)
        assert endless(path)
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    assert endless(tmp_path / "link")
    assert not any(endless(path) for path in (tmp_path, tmp_path / "none", Path(__file__)))
