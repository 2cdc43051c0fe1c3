"""The README's figures are those that come out. Its commands and its ten lines are run by test_blocks.py."""

import re

import pytest

from parley import study
from parley.demo.heart_data import hold_out_file
from parley.demo.recipe import HOSPITALS
from tests.docs.pages import ROOT, pages

README = (ROOT / "README.md").read_text()
OWN_DATA = ROOT / "examples" / "own-data"
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert found, title
    return found.group(1)


WALK = section("Your own data in ten minutes")


def test_the_walks_figures_are_those_that_come_out() -> None:
    """With seeds instead of fresh keys: then only the last digits differ by machine."""
    given = study.read(OWN_DATA / "study.toml")
    records = {each.name: each.data_file for each in HOSPITALS}
    found = {}
    for epsilon in (1.0, 0.3):
        result = given.replaced(epsilon=epsilon).simulate(records, test=hold_out_file(), repeatable=True)
        found[f"ε = {epsilon:g}"] = [result.quality[name].mean for name in ("loss", "auc")]
        found.setdefault("without privacy", [result.without_privacy[name] for name in ("loss", "auc")])
    row = r"^\| (without privacy|ε = [\d.]+) \| ([\d.]+) \| ([\d.]+) \|$"
    table = {name: [float(loss), float(auc)] for name, loss, auc in re.findall(row, WALK, re.MULTILINE)}
    assert table.keys() == found.keys()
    for name, figures in found.items():
        assert table[name] == pytest.approx(figures, abs=0.002), name


def test_the_ten_lines_are_ten() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", section("Ten lines"), re.MULTILINE | re.DOTALL)
    lines = [line for line in code.splitlines() if line]
    assert (len(lines), lines[0]) == (10, "from parley import study")


def test_the_walks_document_is_the_one_that_is_shown() -> None:
    shown = TOML.findall(WALK)
    assert shown
    for excerpt in shown:
        assert excerpt in (OWN_DATA / "study.toml").read_text()


def test_what_make_is_asked_for_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in pages():
        code = [*page.code_blocks, *page.inline_code]
        asked = {name for each in code for name in re.findall(r"^ *make ([a-z-]+)", each, re.MULTILINE)}
        assert asked <= targets, page.name


def test_the_demos_table_has_the_hospitals_and_the_figures_of_the_experiment() -> None:
    """The private row differs with every run; what is beside it follows from the records."""
    measured = (ROOT / "docs" / "experiments" / "heart-disease.md").read_text()
    beside = {f"{hospital.title} alone": f"{hospital.name} alone" for hospital in HOSPITALS}
    beside["records pooled in one place, no privacy"] = "pooled"
    for shown, row in beside.items():
        accuracy, area = re.findall(rf"^{re.escape(shown)} +\d+ +([\d.]+)% +([\d.]+)$", README, re.MULTILINE)[0]
        found = re.search(rf"^\| {re.escape(row)} \| ([\d.]+) \| ([\d.]+) \|$", measured, re.MULTILINE)
        assert found, row
        assert area == found[1]
        assert float(accuracy) == pytest.approx(100 * float(found[2]), abs=0.051)
