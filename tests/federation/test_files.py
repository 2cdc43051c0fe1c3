"""The one strict reader of files that people write."""

from pathlib import Path

import pytest

from parley.federation.files import toml_file


class WrongError(Exception):
    """The caller's own."""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a = ", "is not TOML, mend the syntax"),
        (b'a = "\xff"', "is not TOML, mend the syntax"),
        (b"a = " + b"9" * 5000, "is not TOML, mend the syntax"),
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
