"""One document: simulate, plan, draft and doctor take it, and what is wrong with it is named."""

from pathlib import Path

import numpy as np
import pytest

from parley.algorithms.registry import named_by
from parley.cli.commands.init import write_project
from parley.errors import ParleyError
from parley.federation.errors import FieldError
from parley.federation.manifest import read_manifest
from parley.federation.people import Institution, Legal
from parley.study.document import read
from parley.study.errors import StudyError
from parley.study.study import Study
from tests.support.command import answer, parley

TARGET = {"name": "ill", "kind": "binary", "positive": ["1"], "negative": ["0"]}
TARGET_TEXT = "target = { name = 'sick', kind = 'binary', positive = ['1'], negative = ['0'] }\n"


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


def test_what_a_study_says_of_law_and_people_is_in_its_manifest_and_in_its_file(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    path = tmp_path / "project/study.toml"
    said = 'units = 200\nlegal_entity = "St. Anna"\ncontact = "dpo@anna.example"'
    text = path.read_text().replace("units = 200", said, 1)
    path.write_text(text + '\n[legal]\npurpose = "Who needs an examination"\nexpires = "2999-12-31"\n')
    study = read(path)
    made = study.manifest()
    assert made.legal == study.legal == Legal(purpose="Who needs an examination", expires="2999-12-31")
    assert dict(made.institutions) == study.institutions == {"hospital-b": Institution("St. Anna", "dpo@anna.example")}
    study.write(tmp_path / "project/again.toml")
    assert read(tmp_path / "project/again.toml").manifest().digest == made.digest
    given = study.replaced(
        institutions={"hospital-b": {"legal_entity": "St. Anna", "contact": "dpo@anna.example"}},
        legal={"purpose": "Who needs an examination", "expires": "2999-12-31"},
    )
    assert given == study
    assert study.replaced(legal=None, institutions=None).manifest().legal is None
    with pytest.raises(StudyError, match="institutions names 'hospital-x', which is none of the parties"):
        study.replaced(institutions={"hospital-x": {"contact": "x"}})


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[privacy] ", "[privcy] ", "privacy: is missing; did you mean 'privcy'"),
        ("units = 200", "unit = 200", "parties[1].units: is missing; did you mean 'unit'"),
        ("units = 200", "units = 200\nbatch = 3", "parties[1].batch: is unknown"),
        ('name = "hospital-b"', 'name = "hospital-a"', "parties[1].name: 'hospital-a' is there twice"),
        ("units = 200", "units = 200\ndata_set = 'Two words'", "parties[1].data_set: is 'Two words': use"),
        ("minimum_parties = 3", "minimum_parties = 4", "rounds.minimum_parties: is 4"),
        ("epsilon = 1.0", "epsilon = 0", "privacy.epsilon: is 0"),
        ("units = 200", 'units = 200\ncontact = "a\\nb"', "parties[1].contact: is 'a"),
        ("[privacy] ", "[legal]\nexpires = 2027\n[privacy] ", "legal.expires: is 2027"),
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
    with pytest.raises(StudyError) as refused:
        read(study)
    assert says in str(refused.value)


def test_a_study_that_is_no_toml_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="No such file"):
        read(tmp_path / "study.toml")
    (tmp_path / "study.toml").write_text("run = ")
    with pytest.raises(StudyError, match="is not TOML"):
        read(tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("line", "own", "says"),
    [
        ("[noise]\nown = 1", 1.0, ""),
        ('[noise]\nsecurity = "malicious"', 1.0, ""),
        ('[noise]\nsecurity = "malicious"\nown = 0.5', None, "make own 1"),
        ('[noise]\nsecurity = "rational"', None, "upgrade"),
        ('[noise]\nsecurity = "covert"', 0.5, ""),
        ('[noise]\nsecurity = "covert"\nown = 1\naudit = "1/4"', 1.0, ""),
        ('[noise]\nsecurity = "covert"\nown = 0', None, "use 0.25, 0.5 or 1"),
        ('[noise]\nsecurity = "covert"\naudit = "never"', None, "use 1/16"),
        ('[noise]\naudit = "1/8"', None, "leave audit out"),
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
            read(study)
    else:
        assert read(study).parts.own == (0.5 if own is None else own)


def test_a_study_says_how_often_servers_audit_and_is_written_as_it_was(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    kept = read(tmp_path / "project/study.toml").replaced(security="covert", own=None, audit="1/4")
    assert kept.parts.audit == "1/4"
    kept.write(tmp_path / "again.toml")
    assert read(tmp_path / "again.toml").parts == kept.parts
    assert kept.replaced(audit=None).parts.audit == "1/8"
    assert kept.replaced(audit=None, security="semi-honest").parts.audit is None


def test_own_noise_and_the_cost_that_would_choose_it_contradict_each_other(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    study = tmp_path / "project/study.toml"
    text = study.read_text().replace("# worst_epsilon", "worst_epsilon")
    study.write_text(text)
    with pytest.raises(FieldError, match="one of them chooses"):
        read(study)
    study.write_text(text.replace("own = 0.5", "# own"))
    assert read(study).worst_epsilon == 4.0
    made = read(study).manifest()
    assert made.noise.parts.own == 0.5  # 0.25 would not do


@pytest.mark.slow
def test_every_command_takes_the_study_that_init_writes(tmp_path: Path) -> None:
    """With records beside it for the one that trains; the doctor needs no keys to look at a run."""
    project = tmp_path / "project"
    write_project(project)
    study, out = project / "study.toml", tmp_path / "drafted.toml"
    rng = np.random.default_rng(5)
    age, sick = rng.integers(20, 90, 600), rng.integers(0, 2, 600)
    rows = [f"{a},{100 + a % 80},typical,{s}" for a, s in zip(age, sick, strict=True)]
    (project / "hospital-a/records.csv").write_text("\n".join(["age,pressure,pain,sick", *rows]) + "\n")

    simulated = parley("simulate", str(study), "--seeds", "1", "--json")
    assert simulated.returncode == 0, simulated.stderr
    assert answer(simulated)["tested"] == 120
    planned = answer(parley("study", "plan", str(study), "--json"))
    drafted = answer(parley("manifest", "draft", str(study), "-o", str(out), "--json"))
    manifest = read_manifest(out)
    assert planned["rounds"] == manifest.releases
    assert planned["noise_multiplier"] == manifest.mechanism.noise_multiplier
    checked = answer(parley("manifest", "check", str(out), "--json"))
    for name in ("epsilon", "delta", "epsilon_if_a_server_lies"):
        assert planned[name] == checked[name], name
    examined = answer(parley("doctor", str(project / "north"), "--manifest", str(study), "--json"))
    named = [each["check"] for each in examined["checks"]]
    assert any(each.startswith(f"run {drafted['run']}") for each in named), named


def test_a_study_reads_back_as_itself(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    first = read(tmp_path / "project/study.toml")
    again = first.replaced(
        model={"kind": "perceptron", "hidden": [4]},
        regulariser={"kind": "l2", "weight": 0.01},
        security="malicious",
        own=None,
        data_sets={"hospital-b": "cardiology"},
        minimum_parties=2,
        worst_epsilon=9.0,
        precision="high",
    )
    path = tmp_path / "elsewhere" / "study.toml"
    path.parent.mkdir()
    again.write(path)
    found = read(path)
    assert found.data is not None
    assert found.data.schema is not None
    assert found.data.schema.resolve() == tmp_path / "project/hospital-a/schema.toml"
    assert found.data.train[0].resolve() == tmp_path / "project/hospital-a/records.csv"
    assert found.replaced(data=again.data) == again


def test_a_study_needs_no_more_than_columns_and_a_budget(tmp_path: Path) -> None:
    body = {"features": [{"name": "a", "low": 0, "high": 1}], "target": TARGET}
    Study(body, epsilon=1.0).write(tmp_path / "study.toml")
    found = read(tmp_path / "study.toml")
    assert found == Study(body, epsilon=1.0)
    with pytest.raises(StudyError, match=r"run, federation, \[\[parties\]\] with their units, two \[\[aggregators\]\]"):
        found.manifest()


def test_columns_come_from_the_study_or_from_a_schema_file(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    study = tmp_path / "project/study.toml"
    text = study.read_text()
    assert read(study).schema.intercept
    study.write_text(text.replace('schema = "hospital-a/schema.toml"', ""))
    with pytest.raises(StudyError, match=r"schema: is missing, add it, or name a schema\.toml"):
        read(study)
    study.write_text(text + "[schema]\nfeatures = [{ name = 'age', low = 20, high = 90 }]\n" + TARGET_TEXT)
    chosen = read(study)
    assert (chosen.schema.width, chosen.schema.intercept) == (1, False)
    assert chosen.layout is not None
    study.write_text(text + "[schema]\nfeatures = [{ name = 'age', low = 90, high = 20 }]\n" + TARGET_TEXT)
    with pytest.raises(StudyError, match=r"schema: line \d+: age: low 90 is not below high 20"):
        read(study)


def test_a_study_of_a_schema_file_is_written_with_it(tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    made = Study(tmp_path / "project/hospital-a/schema.toml", epsilon=1.0)
    made.write(tmp_path / "study.toml")
    found = read(tmp_path / "study.toml")
    assert (found.schema, found.layout) == (made.schema, made.layout)
    assert 'schema = "project/hospital-a/schema.toml"' in (tmp_path / "study.toml").read_text()


def test_columns_that_are_wrong_are_named_all_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    head = '[model]\nkind = "linear"\n[algorithm]\nname = "auto"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n'
    path.write_text(
        head + '[schema]\ntarget = { name = "cost", kind = "number" }\nfeatures = [\n'
        '    { name = "age" },\n    { kind = "category", name = "race" },\n]\n'
    )
    with pytest.raises(FieldError) as refused:
        read(path)
    for words in (
        "line 9: cost: give low and high",
        "line 11: age: give low and high",
        "line 12: race: give categories",
    ):
        assert words in str(refused.value)
    schema = tmp_path / "schema.toml"
    schema.write_text('units = 3\nfeatures = [{ name = "age" }]\n\ntarget = { name = "cost", kind = "number" }\n')
    path.write_text(head + '[data]\nschema = "schema.toml"\ntrain = ["a.csv"]\n')
    with pytest.raises(ParleyError) as found:
        read(path)
    assert str(found.value).splitlines() == [
        "schema.toml has 2 things to correct:",
        "  line 2: age: give low and high",
        "  line 4: cost: give low and high, the public bounds of what is predicted",
    ]
