"""Units for systemd: systemd itself finds nothing wrong with them, and rates what they may do.

`tests/docker/test_systemd.py` trains a model under them.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.programs import program, said

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy" / "systemd"
HARDENING = "parley-.service.d/hardening.conf"
NAMES = sorted(path.name for path in UNITS.glob("*@.*"))
SERVICES = [name for name in NAMES if name.endswith(".service")]
LARGEST_EXPOSURE = 15
"""Tenths, of systemd's scale from 0 to 10; above it calls a service "medium" from 45 on. Without hardening: 92."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as an operator has them, with the parley of this environment."""
    folder = tmp_path / "system"
    shutil.copytree(UNITS, folder)
    here = str(Path(sys.executable).with_name("parley"))
    for path in folder.glob("*.service"):
        path.write_text(path.read_text().replace("/opt/parley/bin/parley", here))
    return folder


def analysed(folder: Path, *words: str) -> tuple[int, str]:
    systemd = program("systemd-analyze", "systemd")
    return said([systemd, "--no-pager", *words], environment={"SYSTEMD_UNIT_PATH": f"{folder}:"})


def instance(name: str) -> str:
    return name.replace("@", "@hospital-a")


def test_every_role_has_a_unit_and_every_daily_task_a_timer() -> None:
    roles = {name.removeprefix("parley-").partition("@")[0] for name in SERVICES}
    assert {"party", "aggregator", "coordinator", "renew", "backup"} == roles
    assert [name for name in NAMES if name.endswith(".timer")] == ["parley-backup@.timer", "parley-renew@.timer"]


@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_nothing_wrong(installed: Path, name: str) -> None:
    assert analysed(installed, "verify", "--man=no", str(installed / instance(name))) == (0, "")


def test_systemd_finds_what_is_wrong(installed: Path) -> None:
    hardening = installed / HARDENING
    hardening.write_text(hardening.read_text().replace("PrivateTmp=", "PrivatTmp="))
    code, text = analysed(installed, "verify", "--man=no", str(installed / "parley-party@hospital-a.service"))
    assert "Unknown key 'PrivatTmp'" in text, code


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_may_do_is_little(installed: Path, name: str) -> None:
    words = ("security", "--offline=true", f"--threshold={LARGEST_EXPOSURE}", str(installed / instance(name)))
    code, text = analysed(installed, *words)
    assert code == 0, text
    shutil.rmtree(installed / Path(HARDENING).parent)
    code, text = analysed(installed, *words)
    assert code != 0, "without its hardening"
    assert "UNSAFE" in text


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_does_not_start_without_its_hardening(name: str) -> None:
    assert f"AssertPathExists=/etc/systemd/system/{HARDENING}" in (UNITS / name).read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_writes_nothing_but_its_own_node(name: str) -> None:
    text = (UNITS / name).read_text()
    written = re.findall(r"^(?:ReadWritePaths|StateDirectory)=(.*)$", text, re.MULTILINE)
    allowed = {
        "parley/%i/state", "parley/%i/models", "/var/lib/parley/%i/identity", "/var/lib/parley/%i/state",
        "/var/backups/parley",
    }  # fmt: skip
    assert written
    assert {place for line in written for place in line.split()} <= allowed


def test_the_user_is_one_that_systemd_can_make() -> None:
    code, text = said([program("systemd-sysusers", "systemd"), "--dry-run", str(UNITS / "parley.sysusers")])
    assert code == 0, text
    assert "u parley - " in (UNITS / "parley.sysusers").read_text()
    assert "User=parley\nGroup=parley\n" in (UNITS / HARDENING).read_text()
