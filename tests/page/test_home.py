"""Whether the node runs, as its page says it."""

import fcntl
import os
from pathlib import Path

import pytest

from parley.node.health import PARTY_LOCK
from parley.page import home
from parley.page.folder import Folder, lock_is_held
from parley.page.home import standing
from parley.page.process import page_node


def test_a_node_runs_while_its_lock_is_held_and_is_stopped_when_it_has_long_not_turned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, path = Folder(page_node(folder)), folder / "state" / PARTY_LOCK
    turned = path.stat().st_mtime
    assert standing(here, turned + 10).words.startswith("The node seems to be stopped")
    assert standing(here, turned + 7200).words.startswith("The node is not running; its loop last turned 2 hours ago")
    handle = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert lock_is_held(path) is True
        assert standing(here, turned + 7200).tone == "good"
    finally:
        os.close(handle)
    monkeypatch.setattr(home, "lock_is_held", lambda path: None)  # where locks cannot be seen
    assert standing(here, turned + 10).words == "The node’s loop turned 10 s ago."
    path.unlink()
    assert "never started" in standing(here).words


def test_a_look_at_the_lock_never_takes_it(folder: Path) -> None:
    path = folder / "state" / PARTY_LOCK
    for _ in range(20):
        assert lock_is_held(path) is False
        handle = os.open(path, os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
    assert lock_is_held(path.with_name("nothing.lock")) is False
