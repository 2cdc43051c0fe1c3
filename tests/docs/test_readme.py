"""The README's walk is run word for word, and its figures are those that come out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parley.demo.recipe import HOSPITALS
from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text()
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert found, title
    return found.group(1)


WALK = section("Your own data in ten minutes")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the walk's commands print, run in a clone by a shell that stops at the first failure."""
    clone = tmp_path_factory.mktemp("walk") / "clone"
    clone.mkdir()
    for name in ("examples", "deploy"):
        (clone / name).symlink_to(ROOT / name)
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "activate").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
    script = "\n".join(SHELL.findall(WALK))
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=clone,
        env=os.environ | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_of_the_walk_runs(printed: str) -> None:
    assert printed.count("mean") == WALK.count("parley simulate") == 3
    assert "Run heart-1 of federation trial" in printed
    assert "Privacy: epsilon 1 at delta 1e-05" in printed
    assert "study/README.md" in printed


def test_the_walks_figures_are_those_that_come_out(printed: str) -> None:
    means = [line.split("│")[1:-1] for line in printed.splitlines() if "│ mean │" in line]
    at_one, without, stricter = ((float(row[3]), float(row[5])) for row in means)
    table = {
        name.strip(): (float(loss), float(auc))
        for name, loss, auc in re.findall(
            r"^\| (without noise|ε = [\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", WALK, re.MULTILINE
        )
    }
    wanted = {"ε = 1": at_one, "without noise": without, "ε = 0.3": stricter}
    assert table.keys() == wanted.keys()
    for name, figures in wanted.items():
        assert table[name] == pytest.approx(figures, abs=0.002), name  # seeded: only the last digits differ by machine


def test_the_walks_document_is_the_one_that_is_shown() -> None:
    shown = TOML.findall(WALK)
    assert shown
    for excerpt in shown:
        assert excerpt in (ROOT / "examples" / "own-data" / "run.toml").read_text()


def test_what_make_is_asked_for_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        asked = set(re.findall(r"(?:`|^ *)make ([a-z-]+)", path.read_text(), re.MULTILINE))
        assert asked <= targets, path


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
