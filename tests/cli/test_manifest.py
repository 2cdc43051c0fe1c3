"""`parley manifest`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import answer, parley
from tests.support.documents import BODY


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


@pytest.mark.slow
def test_a_manifest_is_checked_and_explained(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    text = "\n".join(f"{key} = {inline(value)}" for key, value in BODY.items())
    file.write_text(text)
    found = answer(parley("manifest", "check", str(file), "--json"))
    promised = {"epsilon", "delta", "digest", "parties", "rounds", "unit", "relation", "precision", "range_margin_bits"}
    assert promised <= set(found)
    assert found["epsilon"] <= found["epsilon_claimed"] == 2.0
    assert answer(parley("manifest", "digest", str(file), "--json"))["digest"] == found["digest"]
    assert parley("manifest", "digest", str(file)).stdout.strip() == found["digest"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("fraction_bits = 16", "fraction_bit = 16", "noise.fraction_bits: is missing; did you mean 'fraction_bit'"),
        ("dimension = 3", "dimension = 4", "model.dimension: is 4"),
        ("steps = 39", "steps = 38", "mechanism.steps: is 38"),
        ('"ddp-srm"', '"magic"', "algorithm: no algorithm 'magic'"),
        ("passes = 3.95", "pases = 3.95", "algorithm: ddp-srm has no parameter 'pases'"),
        ("weight = 0.001", 'weight = "much"', "regulariser: "),
        ("high = 90.0", "hihg = 90.0", "schema: "),
        ("low = 20.0", 'low = "young"', "schema: "),
    ],
)
def test_a_manifest_that_this_installation_cannot_follow_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    text = "\n".join(f"{key} = {inline(value)}" for key, value in BODY.items())
    assert old in text
    file = tmp_path / "run.toml"
    file.write_text(text.replace(old, new))
    done = parley("manifest", "check", str(file))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: {says}")
