"""A tracker beside a coordinator: whatever becomes of it, the coordinator goes on and can stop."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.coordinator.process import TRACKERS, beside_of, tracker_environment
from parley.node.page_process import Pages
from tests.support.tracked import Ended, sent, tracking
from tests.support.until import until

LIBRARIES = ("mlflow", "tensorboard", "scipy")


def test_the_coordinators_own_process_loads_none_of_them() -> None:
    program = f"import parley.coordinator.process, sys; print(sorted(set({LIBRARIES!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_tracker_has_a_module_and_every_setting_a_tracker() -> None:
    from parley.node.track_settings import NOWHERE

    assert TRACKERS.keys() == vars(NOWHERE).keys()
    for module in TRACKERS.values():
        done = subprocess.run([sys.executable, "-P", "-m", module, "--help"], capture_output=True, check=False)
        assert done.returncode == 0


def test_a_tracker_that_fails_is_in_the_log_and_in_the_trail_once(ended: Ended, tmp_path: Path) -> None:
    (tmp_path / "events").write_text("no folder")
    node = tracking(ended.folder, tensorboard=tmp_path / "events")
    noted: list[tuple[str, Any]] = []

    def note(event: str, **fields: Any) -> str:
        noted.append((event, fields))
        return ""

    async def go() -> None:
        beside = beside_of(node, note)
        assert len(beside) == 1
        await asyncio.to_thread(until, lambda: bool(noted))
        await asyncio.gather(*(each.stop() for each in beside))

    asyncio.run(go())
    assert noted == [("tracker.ended", {"kind": "tensorboard"})]


def test_a_tracker_that_hangs_does_not_keep_a_coordinator_from_its_end(
    ended: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.node.page_process.STOP_SECONDS", 0.2)
    monkeypatch.setenv("PGPASSWORD", "of the coordinator alone")
    node = tracking(ended.folder, tensorboard=tmp_path / "events")
    started: list[asyncio.subprocess.Process] = []
    exec_: Callable[..., Any] = asyncio.create_subprocess_exec

    async def remembered(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        process: asyncio.subprocess.Process = await exec_(*command, **options)
        started.append(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", remembered)

    async def go() -> int | None:
        beside: list[Pages] = beside_of(node, lambda *_, **__: "")
        await asyncio.to_thread(until, lambda: bool(started))
        assert b"PGPASSWORD" not in Path(f"/proc/{started[0].pid}/environ").read_bytes()
        os.kill(started[0].pid, signal.SIGSTOP)
        await asyncio.gather(*(each.stop() for each in beside))
        return await started[0].wait()

    assert asyncio.run(go()) in (-signal.SIGTERM, -signal.SIGKILL)  # the first may be enough


def test_a_coordinator_that_tracks_nothing_there_says_so(ended: Ended, tmp_path: Path) -> None:
    tracking(ended.folder, tensorboard=tmp_path / "events")
    done = sent("mlflow", ended.folder)
    assert (done.returncode, "node.toml has no mlflow under [track]" in done.stderr) == (1, True)


def test_a_tracker_gets_its_login_and_none_of_the_coordinators_other_variables() -> None:
    needed = {"PATH": "/bin", "HTTPS_PROXY": "proxy:3128", "no_proxy": "a", "MLFLOW_TRACKING_TOKEN": "t", "LC_ALL": "C"}
    secrets = {"AWS_SECRET_ACCESS_KEY": "s", "PGPASSWORD": "p", "MYMLFLOW_X": "m", "GITHUB_TOKEN": "g"}
    assert tracker_environment(needed | secrets) == needed
