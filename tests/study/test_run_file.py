"""A wrong run file is one line."""

from pathlib import Path

import pytest
from parley.study.run_file import read_run_file

from parley.learning.errors import ModelError
from parley.study.errors import StudyError
from tests.support.run_files import RUN, write


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "logistic"', 'kind = "tree"', "tree"),
        ('name = "ALGORITHM"', 'name = "sgd"', "no algorithm"),
        ("epsilon = 2.0", "epsilon = true", "epsilon"),
        ("parties = 3", "partys = 3", "partys"),
        ("[privacy]", "[secrecy]", "secrecy"),
        ('kind = "logistic"', 'kind = "linear"', "number target"),
    ],
)
def test_a_wrong_run_file_is_one_line_that_says_what_to_change(folder: Path, old: str, new: str, message: str) -> None:
    from parley.algorithms.errors import AlgorithmError

    with pytest.raises((StudyError, AlgorithmError, ModelError), match=message):
        read_run_file(write(folder, RUN.replace(old, new).replace("ALGORITHM", "auto")))
