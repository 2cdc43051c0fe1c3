"""`parley report`: made at a node, verified by anybody; exit codes, and files that are never overwritten."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.cli.commands import report as command
from parley.cli.main import app
from parley.errors import ParleyError
from parley.node.pins import key_text
from parley.report.check import FORMS
from parley.report.content import fingerprint
from parley.report.page import page
from parley.report.signed import Report
from tests.support.reports import authority, identity, report
from tests.support.stage import NORTH


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["report", *map(str, words)])
    if isinstance(done.exception, ParleyError):
        return 2, f"error: {done.exception}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def made(tmp_path: Path) -> Report:
    return report(tmp_path / "node")


@pytest.fixture
def file(made: Report, tmp_path: Path) -> Path:
    path = tmp_path / "a.html"
    path.write_text(page(made))
    return path


def test_a_report_that_holds_is_good_and_names_its_key(file: Path) -> None:
    code, said = run("verify", file)
    assert code == 0
    assert said.startswith("good     everything holds\n")
    assert f"key      {fingerprint(identity().pin)}" in said
    assert "not compared: give --pin" in said
    assert "parley://cardio/party/hospital-a, of run heart-1" in said


def test_a_pin_says_whose_key_it_is_in_either_spelling(file: Path) -> None:
    for given in (key_text(identity().pin), fingerprint(identity().pin), fingerprint(identity().pin).lower()):
        code, said = run("verify", file, "--pin", given)
        assert (code, "it is the pin" in said) == (0, True)
    other = authority().issue_as(NORTH).pin
    for given in (key_text(other), fingerprint(other)):
        code, said = run("verify", file, "--pin", given)
        assert code == 1
        assert said.startswith("ANOTHER KEY")
        assert "it is NOT the pin that was given" in said
    assert run("verify", file, "--pin", "02:00")[0] == 2


def test_an_altered_one_is_refused_with_exit_code_1(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"2.22", b"3.99"))
    code, said = run("verify", file)
    assert code == 1
    assert said.startswith("ALTERED  do not rely on this file")
    assert "says     " not in said


def test_a_pdf_without_what_draws_it_is_checked_as_far_as_that_goes(
    made: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fpdf")
    pages = tmp_path / "a.pdf"
    pages.write_bytes(FORMS["pdf"](made))
    assert run("verify", pages)[0] == 0
    monkeypatch.setattr("parley.report.check.find_spec", lambda name: None if name == "fpdf" else name)
    code, said = run("verify", pages, "-o", tmp_path / "b.html")
    assert code == 1
    assert said.startswith("CONTENT ONLY  do not rely on the pages")
    assert "pip install 'parley-federation[report]'" in said
    assert (tmp_path / "b.html").read_text() == page(made)
    pages.write_bytes(pages.read_bytes().replace(b"EK 2026-114", b"EK 2026-115"))
    assert run("verify", pages)[1].startswith("ALTERED")


def test_what_is_no_report_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text("<!doctype html>")
    for place in (tmp_path / "b.html", tmp_path / "nowhere", tmp_path, "/dev/zero"):
        assert run("verify", place)[0] == 2


def test_scripts_get_verdict_fingerprint_and_what(file: Path) -> None:
    code, said = run("verify", file, "--pin", key_text(identity().pin), "--json")
    found = json.loads(said.splitlines()[-1])
    assert code == 0
    assert (found["verdict"], found["key_fingerprint"]) == ("good", fingerprint(identity().pin))
    assert (found["key_is_the_pin"], found["form"], found["run"]) == (True, "html", "heart-1")
    assert len(found["what"]) == 3
    file.write_bytes(file.read_bytes() + b" ")
    code, said = run("verify", file, "--json")
    found = json.loads(said.splitlines()[-1])
    assert (code, found["verdict"], len(found["what"])) == (1, "altered", 1)


def test_the_signed_content_can_be_drawn_anew_in_another_form(file: Path, made: Report, tmp_path: Path) -> None:
    code, _ = run("verify", file, "-o", tmp_path / "again.json")
    assert code == 0
    assert (tmp_path / "again.json").read_text() == made.text
    # Also of one whose page was altered: what it holds is signed.
    file.write_bytes(file.read_bytes().replace(b"2.22", b"3.99"))
    assert run("verify", file, "-o", tmp_path / "right.html")[0] == 1
    assert (tmp_path / "right.html").read_text() == page(made)
    code, said = run("verify", file, "-o", tmp_path / "right.html")
    assert (code, "is not overwritten" in said) == (2, True)


def test_a_folder_is_short_for_make_and_files_are_not_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "there.html"
    there.write_text("mine")
    for words in ((tmp_path, "-o", there), ("make", tmp_path, "-o", there)):
        code, said = run(*words)
        assert code == 2
        assert "is not overwritten" in said
    assert there.read_text() == "mine"
    code, said = run(tmp_path, "-o", tmp_path / "a.docx")
    assert (code, ".html, .pdf or .json" in said) == (2, True)
    code, said = run(tmp_path / "nowhere", "-o", tmp_path / "a.html")
    assert (code, "node.toml" in said) == (2, True)


def test_it_writes_every_form_that_is_asked_for(made: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a report that is at hand: what a node reports is tested with each role."""
    monkeypatch.setattr("parley.cli.reports.signed_report", lambda node, wanted: made)
    code, said = run(tmp_path, "--run", "heart-1", "-o", tmp_path / "a.html", "-o", tmp_path / "a.json", "--json")
    found = json.loads(said.splitlines()[-1])
    assert code == 0
    assert found["files"] == [str(tmp_path / "a.html"), str(tmp_path / "a.json")]
    assert (tmp_path / "a.html").read_text() == page(made)
    for name in ("a.html", "a.json"):
        assert run("verify", tmp_path / name)[0] == 0
    assert command.app.info.help
