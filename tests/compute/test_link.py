"""The process that speaks with a cluster: what it says is taken, and nothing of it is left."""

import sys
import threading
from pathlib import Path

import pytest

from parley.compute.cluster import Cluster
from parley.compute.errors import LostError
from parley.compute.link import Link
from tests.support import foremen


def test_its_folder_is_this_users_alone_and_goes_with_it(tmp_path: Path) -> None:
    link = Link(Cluster(), threading.Event(), (sys.executable, "-P", foremen.__file__, "none", str(tmp_path / "mark")))
    assert link.folder.stat().st_mode & 0o777 == 0o700
    assert (link.folder / "token").stat().st_mode & 0o777 == 0o600
    (reply,) = link.asked({"do": "hire", "workers": [0], "seconds": 30.0}).header["replies"]
    assert reply["state"] == "done"
    link.close()
    assert link.process.poll() is not None
    assert not link.folder.exists()
    with pytest.raises(LostError):
        link.asked({"do": "hire", "workers": [0], "seconds": 1.0})


def test_one_that_ends_at_once_is_lost() -> None:
    with pytest.raises(LostError):
        Link(Cluster(), threading.Event(), (sys.executable, "-c", "pass"))
