"""`parley predict`."""

import os
from pathlib import Path

import pytest

from tests.support.command import parley


@pytest.mark.slow
def test_a_file_of_rows_becomes_a_file_of_answers(path: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,pulse,age\na,60,80\nb,200,300\n")
    call = ("predict", str(path), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv"), "--keep", "id")
    done = parley(*call)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "1 values were cut to the public bounds" in done.stderr
    assert "out.csv: 2 rows" in done.stderr
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "id,prediction,probability"
    assert [line.split(",")[:2] for line in lines[1:]] == [["a", "1"], ["b", "0"]]
    again = parley(*call)
    assert (again.returncode, "or --force" in again.stderr) == (2, True)
    assert parley(*call, "--force").returncode == 0
    over = parley("predict", str(path), str(tmp_path / "new.csv"), "-o", str(tmp_path / "new.csv"), "--force")
    assert (over.returncode, "is what is read" in over.stderr) == (2, True)
    assert (tmp_path / "new.csv").read_text().startswith("id,pulse,age")
    screen = parley("predict", str(path), str(tmp_path / "new.csv"), "-o", "-", "--keep", "id")
    assert screen.stdout.splitlines() == lines


def test_errors_are_one_line_with_file_and_line(path: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("pulse,age\n60,80\nfast,30\n")
    done = parley("predict", str(path), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv"))
    assert done.returncode == 2
    assert done.stderr == "error: new.csv, line 3, column pulse: 'fast' is not a number\n"
    assert not (tmp_path / "out.csv").exists()
    none = parley("predict", str(path), str(tmp_path / "none.csv"), "-o", "-")
    assert none.returncode == 2
    assert "none.csv" in none.stderr


@pytest.mark.slow
def test_what_never_ends_is_refused_before_it_is_read(path: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for rows in ("/dev/zero", str(tmp_path / "pipe.csv"), str(tmp_path / "pipe.csv") + ".parquet"):
        if rows.endswith(".parquet"):
            os.mkfifo(rows)
        done = parley("predict", str(path), rows, "-o", "-")
        assert (done.returncode, "is no regular file" in done.stderr) == (2, True), done.stderr
    done = parley("predict", str(tmp_path / "pipe.csv"), str(path), "-o", "-")
    assert (done.returncode, "is no regular file" in done.stderr) == (2, True), done.stderr
