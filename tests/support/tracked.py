"""A coordinator's folder with a run that has ended, and trackers that are sent it in processes of their own."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import parley.coordinator.process
from parley.coordinator.store import RoundRecord
from parley.node.node_file import CoordinatorNode, read_node
from parley.node.node_text import write_node
from parley.node.track_settings import TrackSettings
from tests.support.lead import verified
from tests.support.until import GIVE_UP_SECONDS
from tests.support.warm import lead_with_public_set, warm_run

OFFLINE = ("unshare", "--user", "--map-root-user", "--net")
"""A network of its own, in which there is nobody, not even loopback."""


@dataclass(frozen=True)
class Ended:
    """What a coordinator leaves of a run that stopped early."""

    folder: Path
    records: list[RoundRecord]


def ended_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ended:
    monkeypatch.setattr(parley.coordinator.process, "verify_apart_with_charge", verified)
    with lead_with_public_set(folder) as lead:
        made = warm_run(lead, folder, "warm", **{"rounds.stop_early": {"patience": 3}})
        lead.finishes(made)
        return Ended(lead.folder, lead.process.store.history(made.digest))


def tracking(folder: Path, **track: Path | str) -> CoordinatorNode:
    """Its node.toml with a table [track]."""
    from dataclasses import replace

    node = read_node(folder)
    assert isinstance(node, CoordinatorNode)
    changed = replace(node, track=TrackSettings(**track))  # type: ignore[arg-type]
    write_node(changed)
    return changed


def offline() -> Sequence[str]:
    """How a command is run without a network; empty where this machine does not let us."""
    if shutil.which(OFFLINE[0]) is None:
        return ()
    return OFFLINE if subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode == 0 else ()


def sent(kind: str, folder: Path, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """One pass of a tracker, to its end."""
    command = [*before, sys.executable, "-P", "-m", f"parley.tracking.to_{kind}", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, check=False)
