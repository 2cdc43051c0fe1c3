"""docs/install.md says what can be installed, and for which machines."""

import re
import runpy
import tomllib

from parley.mpc.processor import not_compiled
from tests.docs.pages import ROOT

TEXT = (ROOT / "docs" / "install.md").read_text()


def test_every_extra_is_in_the_table_and_the_other_way_round() -> None:
    section = TEXT.partition("## What else can be installed")[2].partition("\n## ")[0]
    first = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    rows = [name for cell in first for name in re.findall(r"`(\w+)`", cell)]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(rows) == sorted(declared)


def test_every_wheel_of_a_release_is_named() -> None:
    platforms = runpy.run_path(str(ROOT / "mpc/parley/mpc/native/build.py"))["PLATFORMS"]
    named = re.findall(r"^\|[^|]*\| `(\w+)\.whl` \|$", TEXT, re.MULTILINE)
    assert sorted(named) == sorted(each.tag for each in platforms.values())
    files = (ROOT / "docs" / "release.md").read_text()
    assert all(f"{each.tag}.whl`" in files for each in platforms.values())


def test_the_refusal_that_is_shown_is_the_one_that_is_said() -> None:
    source = (ROOT / "mpc/parley/mpc/kernels.py").read_text()
    (shown,) = re.findall(r"```text\n(this machine has no AES.*?)\n```", TEXT)
    for part in (shown.partition(" (it lacks")[0], shown.partition("demonstration, on ")[2]):
        assert part in re.sub(r'"\s+f?"', "", source)


def test_so_is_that_of_the_wheel_without_kernels() -> None:
    (shown,) = re.findall(r"```text\n(the compiled kernels .*?)\n```", TEXT)
    said = str(not_compiled(OSError("…")))
    assert shown == re.sub(r"manylinux_2_28_\w+", "manylinux_2_28_x86_64", said)
