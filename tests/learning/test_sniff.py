"""What a file looks like that nobody has described."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.learning.errors import DataError
from parley.learning.holding import Layout
from parley.learning.readers import Table, read
from parley.learning.sniff import DELIMITERS, sniffed

ROWS = [["name", "age", "note"], ["Bodó, Ö.", "41", "a; b | c"], ["Ruß", "17", "x, y, z"], ["", "5", 'say "hi"']]


def text_of(delimiter: str, rows: list[list[str]]) -> str:
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in rows]
    return "\n".join(delimiter.join(row) for row in quoted) + "\n"


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, delimiter: str, encoding: str, ending: str) -> None:
    path = tmp_path / "ours.txt"
    path.write_bytes(text_of(delimiter, ROWS).replace("\n", ending).encode(encoding))
    found = read([path], sniffed(path), "")
    assert isinstance(found, Table)
    assert list(found.columns) == ROWS[0]
    assert [list(row) for row in zip(*found.columns.values(), strict=True)] == ROWS[1:]


@given(
    st.sampled_from(DELIMITERS),
    st.lists(st.lists(st.from_regex(r"[a-z,;|]{0,6}", fullmatch=True), min_size=3, max_size=3), min_size=2, max_size=9),
)
def test_cells_that_hold_other_delimiters_are_whole(delimiter: str, rows: list[list[str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ours.csv"
        path.write_text(text_of(delimiter, [["a", "b", "c"], *rows]))
        layout = sniffed(path)
        assert layout.delimiter == delimiter
        assert layout.header


def test_what_stands_before_the_header_and_a_file_without_one(tmp_path: Path) -> None:
    path = tmp_path / "ours.csv"
    path.write_text("Exported by us\n\nage;sick\n41;1\n17;0\n55;1\n")
    assert sniffed(path) == Layout(delimiter=";", skip=2)
    path.write_text("41,1\n17,0\n")
    assert sniffed(path) == Layout(header=False, columns=("column_1", "column_2"))
    path.write_text("age\n41\n17\n")
    assert sniffed(path) == Layout()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.svm", b"1 1:0.5 2:3\n0 7:1\n", "LIBSVM"),
        ("a.npz", b"PK\x03\x04", "no table"),
        ("a.csv", b"", "no rows"),
        ("idx3-ubyte", b"\0\0\x08\x01\0\0\0\0", "no table"),
    ],
)
def test_what_is_no_table_is_said(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        sniffed(path)
    with pytest.raises(DataError, match="No such file"):
        sniffed(tmp_path / "nobody.csv")
