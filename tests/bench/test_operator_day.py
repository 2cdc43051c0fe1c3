"""From nothing to an audited run by typing what docs/federation.md and the README of `parley init` say, to the word."""

import re
from pathlib import Path

import pytest
from benchmarks.operator_day import OFFICER, first_command, on_this_machine, steps, table, walk

from parley.learning.model_archive import card_path
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "experiments" / "operator-day.md").read_text()
MOST = {"lead": 14, "north": 8, "south": 8, "hospital-a": 11, "hospital-b": 11}


@pytest.mark.slow
def test_nobody_types_many_commands_nobody_edits_a_file_and_nothing_goes_wrong(tmp_path: Path) -> None:
    day = walk(tmp_path)
    assert day.errors == []
    typed = {name: len(each.commands) + len(each.officer) for name, each in day.organisations.items()}
    assert typed.keys() == MOST.keys()
    assert all(count <= MOST[name] for name, count in typed.items()), typed
    for name in ("hospital-a", "hospital-b"):
        said = day.organisations[name].output
        assert "epsilon" in said[f"parley ledger show {name}"]
        assert "signed by" in said[f"parley report verify report-{name}.html"]
    lead = day.organisations["lead"].folder
    assert (lead / "model.npz").is_file()
    assert card_path(lead / "model.npz").is_file()
    found = re.findall(r"^\| (\S+) \| (\d+) \| (\d+) \| \d+ \|$", PAGE, re.MULTILINE)
    assert {name: (int(all_of), int(officer)) for name, all_of, officer in found} == {
        name: (len(each.commands) + len(each.officer), len(each.officer)) for name, each in day.organisations.items()
    }
    assert "| 34 | 11 | 8 |" in table(day)


@pytest.mark.long
def test_the_readme_of_a_trial_on_one_machine_is_typed_in_one_folder(tmp_path: Path) -> None:
    day = walk(tmp_path, "parley init trial --parties a=300,b=200 --local", together=True)
    assert day.errors == []
    assert (tmp_path / "lead" / "trial" / "model.npz").is_file()


def test_the_first_command_is_the_pages_own() -> None:
    line = first_command()
    assert "\n" not in line
    there = on_this_machine(line, (7000, 8000, 9000))
    assert "example.org" not in there
    assert "--hosts lead=127.0.0.1:7000,north=127.0.0.1:8000,south=127.0.0.1:9000" in there


def test_steps_are_the_readmes_blocks_in_order() -> None:
    readme = "## 1. x\n\n### lead\n\n```sh\nparley a\nparley b\n```\n\n## 7. y\n\n### north\n\n```sh\nparley c\n```\n"
    assert list(steps(readme)) == [("1", [("lead", ["parley a", "parley b"])]), (OFFICER, [("north", ["parley c"])])]
