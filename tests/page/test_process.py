"""The page as a process: loopback only, one for a node, the link, and what it has nothing to do with."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from parley.node.errors import NodeError
from parley.node.node_file import Address
from parley.page.process import LOCK, TOKEN, link, page_node, settings_of
from tests.support import page_process
from tests.support.node_files import node_with

AGGREGATOR = """role = "aggregator"
[listen]
share = "127.0.0.1:7401"
control = "127.0.0.1:7402"
peer = "127.0.0.1:7403"
[peer]
name = "north"
"""


def test_it_listens_on_loopback_and_nowhere_else() -> None:
    assert settings_of(None).port == 0
    assert settings_of(Address("::1", 7490)).host == "::1"
    for host in ("0.0.0.0", "::", "192.0.2.1", "hospital.example"):
        with pytest.raises(NodeError, match=r"loopback only.*ssh -L 7490:127\.0\.0\.1:7490"):
            settings_of(Address(host, 7490))


def test_of_another_role_it_names_the_command_that_is_right(tmp_path: Path) -> None:
    node_with(tmp_path, "")
    with pytest.raises(NodeError, match=f"this page is a party's: .*`parley dashboard {tmp_path}`"):
        page_node(tmp_path)
    (tmp_path / "node.toml").write_text(AGGREGATOR)
    with pytest.raises(NodeError, match=f"it has no pages: `parley aggregator status {tmp_path}`"):
        page_node(tmp_path)


@pytest.mark.slow
def test_it_serves_a_folder_whose_node_is_not_running_and_its_link_signs_in(folder: Path) -> None:
    with pytest.raises(NodeError, match=f"no page of .* is running: start it with `parley page {folder}`"):
        link(folder)
    with page_process.served(folder) as (said, _):
        assert (said["role"], said["name"]) == ("page", "hospital-a")
        printed = page_process.link(folder)
        assert printed == f"{said['url']}login#{(folder / 'state' / TOKEN).read_text().strip()}\n", "alone on a line"
        with urllib.request.urlopen(said["url"]) as answer:
            assert answer.url.endswith("/login")
        for name in (LOCK, TOKEN):
            assert (folder / "state" / name).stat().st_mode & 0o777 == 0o600
        second = subprocess.run([*page_process.COMMAND, str(folder)], capture_output=True, text=True, check=False)
        assert (second.returncode, "--link` says where" in second.stderr) == (2, True)
    with pytest.raises(NodeError, match="no page of"):
        link(folder)  # of a page that is gone nobody makes a link: its port may be another's by now


@pytest.mark.slow
def test_a_wrong_address_and_a_folder_that_is_none_are_one_line(folder: Path, tmp_path: Path) -> None:
    for options in (["--listen", "0.0.0.0:80"], ["--listen", "nonsense"]):
        done = subprocess.run(
            [*page_process.COMMAND, str(folder), *options], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    done = subprocess.run([*page_process.COMMAND, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def held(folder: Path) -> set[Path]:
    """Without what SQLite puts beside a file that is open."""
    return {path for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))}


def test_own_figures_are_computed_apart_and_leave_no_trace(folder: Path) -> None:
    """The real process: what it says is on its standard output, and in no file."""
    before = held(folder)
    digest = next(each.stem for each in (folder / "state" / "newest").glob("*.npz"))
    question = json.dumps({"node": str(folder), "run": digest})
    done = subprocess.run(
        [sys.executable, "-P", "-m", "parley.page.own"], input=question, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert (found["records"], found["units"], found["cut"]) == (300, 300, [])
    assert found["loss"] == pytest.approx(0.6931, abs=1e-4), "the first model is zero"
    assert 0 <= found["clipped"] <= 1
    assert done.stderr == ""
    assert held(folder) == before
    for path in before:
        assert not path.is_file() or repr(found["loss"])[:10].encode() not in path.read_bytes()
    unknown = subprocess.run(
        [sys.executable, "-P", "-m", "parley.page.own"], input=json.dumps({"node": str(folder), "run": "00" * 32}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "refused" in json.loads(unknown.stdout)


def test_a_partys_own_process_loads_none_of_it() -> None:
    """Whatever it imports: a party that answers rounds has no web framework in it, and no page."""
    program = (
        "import sys, parley.party.process, parley.party.client, parley.party.run\n"
        "found = {name for name in sys.modules if name.split('.')[0] in ('starlette', 'uvicorn', 'jinja2')}\n"
        "found |= {name for name in sys.modules if name.startswith(('parley.page', 'parley.web'))}\n"
        "print(sorted(found))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
