"""The PDF form: the same words on at most two pages, the signed content attached, the same bytes every time."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parley.report.document import document
from parley.report.page import page
from parley.report.signed import Report
from tests.support.documents import meaning
from tests.support.reports import PEOPLE, budget, facts, report, run

pytest.importorskip("fpdf")
from parley.report.pdf import BOX, drawn_by, pdf

PAGE = re.compile(rb"/Type /Page\n")


def test_the_same_content_is_the_same_file_in_another_process_too(tmp_path: Path) -> None:
    made = report(tmp_path)
    first = pdf(made)
    assert first == pdf(made)
    (tmp_path / "a.json").write_text(made.text)
    program = (
        "import sys, pathlib; from parley.report.signed import envelope_in; from parley.report.pdf import pdf;"
        "sys.stdout.buffer.write(pdf(envelope_in(pathlib.Path(sys.argv[1]).read_bytes())[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path / "a.json")], capture_output=True, check=False
    )
    assert done.stdout == first, done.stderr


def test_it_is_two_pages_at_most(tmp_path: Path) -> None:
    runs = (run(f"a-longer-name-of-a-run-{index}") for index in range(30))
    full = facts(meaning(**PEOPLE), budgets=(budget(*runs), budget(population="others")))
    for found in (None, full):
        assert 1 <= len(PAGE.findall(pdf(report(tmp_path, found)))) <= 2


def test_the_attachment_is_the_json_form(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert made.text.encode() in pdf(made)


def test_letters_of_europe_are_drawn_and_others_are_boxes(tmp_path: Path) -> None:
    claim = meaning(legal={"purpose": "Szpital Główny, Ἱπποκράτειο, Больница, 東京"})
    assert isinstance(pdf(report(tmp_path, facts(claim))), bytes)
    assert BOX == "□"


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler-utils are not installed")
def test_it_says_what_the_page_says(tmp_path: Path) -> None:
    made = report(tmp_path)
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf(made))
    done = subprocess.run(["pdftotext", "-layout", str(file), "-"], capture_output=True, text=True, check=True)
    said = squeezed(done.stdout)
    for word in (
        document(made.content).title,
        "What is guaranteed",
        "4.2",
        "St. Anna Hospital,",
        "2026-11-02",
        "1,234",
    ):
        assert squeezed(word) in said, word
    assert squeezed("What it was for") in squeezed(page(made))
    held = subprocess.run(["pdfdetach", "-list", str(file)], capture_output=True, text=True, check=True)
    assert "parley-report.json" in held.stdout


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_what_it_is_drawn_by_is_named_with_its_version() -> None:
    assert re.fullmatch(r"fpdf2 \S+, fonttools \S+, matplotlib \S+", drawn_by())


def test_a_content_without_a_moment_is_no_report(tmp_path: Path) -> None:
    from parley.report.errors import ReportError

    made = report(tmp_path)
    with pytest.raises(ReportError):
        pdf(Report({**made.content, "made": "soon"}, made.key, made.signature))
