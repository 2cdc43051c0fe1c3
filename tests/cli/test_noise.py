"""`parley noise`."""

import pytest

from tests.support.command import answer, parley


def test_the_certificate_has_the_promised_fields() -> None:
    done = parley("noise", "certificate", "--samples", "1e7", "--epsilon", "1", "--delta", "1e-5", "--json")
    assert done.returncode == 0, done.stderr
    result = answer(done)
    assert result["samples"] == 10**7
    assert result["epsilon"] == 1
    assert result["delta"] == 1e-5
    assert result["precision"] == "standard"
    assert result["epsilon_added"] <= 0.01
    assert result["delta_added"] <= 1e-7
    assert result["largest"] >= 8
    assert 0.99 < result["acceptance"] < 1
    assert "finite precision adds at most" in result["statement"]


def test_a_certificate_beyond_one_per_cent_says_so_by_its_exit_code() -> None:
    words = ["--samples", "1e9", "--epsilon", "1", "--delta", "1e-5", "--precision", "standard", "--json"]
    done = parley("noise", "certificate", *words)
    assert done.returncode == 1
    assert answer(done)["within_one_percent"] is False


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--samples", "0", "--epsilon", "1", "--delta", "1e-5"], "whole number"),
        (["--samples", "1.5", "--epsilon", "1", "--delta", "1e-5"], "whole number"),
        (["--samples", "nan", "--epsilon", "1", "--delta", "1e-5"], "whole number"),
        (["--samples", "100", "--epsilon", "-1", "--delta", "1e-5"], "epsilon is -1"),
        (["--samples", "100", "--epsilon", "1", "--delta", "2"], "delta is 2"),
        (["--samples", "1e14", "--epsilon", "1", "--delta", "1e-5"], "fewer rounds"),
    ],
)
@pytest.mark.slow
def test_bad_questions_get_one_line_that_says_what_to_change(words: list[str], says: str) -> None:
    done = parley("noise", "certificate", *words)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert says in last
    assert "Traceback" not in done.stderr
