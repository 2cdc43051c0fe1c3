"""From a study to a manifest that every check accepts, in a text that people can read."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parley.study.study_file import draft_from, read_study

from parley.algorithms.registry import named_by
from parley.cli.commands.init import write_project
from parley.federation.errors import FieldError
from parley.federation.manifest import read_manifest
from parley.federation.toml_text import toml_text
from parley.study.errors import StudyError
from tests.support.command import answer, parley
from tests.support.documents import BODY

LEAVES = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES: Any = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_every_table_reads_back_as_itself(body: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(body)) == body


def test_a_manifest_reads_back_as_itself() -> None:
    assert tomllib.loads(toml_text(BODY)) == BODY


def test_the_template_becomes_the_templates_manifest_but_for_the_rounded_noise(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    out = tmp_path / "out.toml"
    done = parley("manifest", "draft", str(tmp_path / "project/study.toml"), "-o", str(out), "--json")
    assert done.returncode == 0, done.stderr
    manifest, shown = read_manifest(out), read_manifest(tmp_path / "project/run.toml")
    assert answer(done)["digest"] == manifest.digest.hex()
    named_by(manifest)
    drafted, written = manifest.as_json(), shown.as_json()
    noise = drafted["mechanism"].pop("noise_multiplier")
    assert noise < written["mechanism"].pop("noise_multiplier") < noise * 1.01
    drafted.pop("schema"), written.pop("schema")  # the draft spells its defaults out
    assert drafted == written
    assert drafted["noise"]["own"] == 0.5
    again = parley("manifest", "draft", str(tmp_path / "project/study.toml"), "-o", str(out))
    assert (again.returncode, "is not overwritten" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[privacy] ", "[privcy] ", "privacy: is missing; did you mean 'privcy'"),
        ("units = 200", "unit = 200", "parties[1].units: is missing; did you mean 'unit'"),
        ("units = 200", "units = 200\nbatch = 3", "parties[1].batch: is unknown"),
        ('name = "hospital-b"', 'name = "hospital-a"', "parties[1].name: 'hospital-a' is there twice"),
        ("minimum_parties = 3", "minimum_parties = 4", "rounds.minimum_parties: is 4"),
        ("epsilon = 1.0", "epsilon = 0", "privacy.epsilon: is 0"),
        ("[model]", "[modl]", "model: is missing; did you mean 'modl'"),
        ("deadline_seconds", "deadline", "rounds.deadline: is unknown"),
    ],
)
def test_a_slip_in_a_study_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    write_project(tmp_path / "project")
    study = tmp_path / "project/study.toml"
    text = study.read_text()
    assert old in text
    study.write_text(text.replace(old, new, 1))
    with pytest.raises(FieldError) as refused:
        read_study(study)
    assert says in str(refused.value)


def test_a_study_that_is_no_toml_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="No such file"):
        draft_from(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_text("run = ")
    with pytest.raises(StudyError, match="is not TOML"):
        read_study(tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("line", "own", "says"),
    [
        ("[noise]\nown = 1", 1.0, ""),
        ('[noise]\nsecurity = "malicious"', 1.0, ""),
        ('[noise]\nsecurity = "malicious"\nown = 0.5', None, "make own 1"),
        ('[noise]\nsecurity = "covert"', None, "upgrade"),
        ("[noise]\nown = 0.4", None, "0.25"),
        ("[noise]", None, ""),
    ],
)
def test_a_study_says_who_adds_which_noise(tmp_path: Path, line: str, own: float | None, says: str) -> None:
    write_project(tmp_path / "project")
    study = tmp_path / "project/study.toml"
    head, _, rest = study.read_text().partition("[noise]")
    study.write_text(head + line + "\n\n[rounds]" + rest.partition("[rounds]")[2])
    if says:
        with pytest.raises(FieldError, match=says):
            read_study(study)
    elif own is None:
        assert "parts" not in read_study(study)
    else:
        assert read_study(study)["parts"].own == own


def test_own_noise_and_the_cost_that_would_choose_it_contradict_each_other(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    study = tmp_path / "project/study.toml"
    text = study.read_text().replace("# worst_epsilon", "worst_epsilon")
    study.write_text(text)
    with pytest.raises(FieldError, match="one of them chooses"):
        read_study(study)
    study.write_text(text.replace("own = 0.5", "# own"))
    assert read_study(study)["worst_epsilon"] == 4.0
    made = draft_from(study)
    assert made.noise.parts.own == 0.5  # 0.25 would not do
