"""Ctrl-C: what is left of the demonstration."""

from pathlib import Path
from typing import Any

import pytest

from parley.demo.demo import Demo
from parley.demo.recipe import STUDY
from tests.support.screens import console


class Slow:
    """A federation that is interrupted while it stops."""

    def stop(self) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("keep", [False, True])
def test_keys_are_removed_though_the_removal_is_interrupted_as_well(tmp_path: Path, keep: bool) -> None:
    shown, _ = console(terminal=False)
    demo = Demo(shown, tmp_path, keep, STUDY)
    (demo.folder / "key.pem").write_text("a key")
    federation: Any = Slow()
    demo.federation = federation
    with pytest.raises(KeyboardInterrupt), demo:
        raise KeyboardInterrupt
    assert demo.folder.exists() == keep


@pytest.mark.parametrize("keep", [False, True])
def test_whoever_interrupts_it_is_told_what_is_left(tmp_path: Path, keep: bool) -> None:
    shown, out = console(terminal=False, width=200)
    demo = Demo(shown, tmp_path, keep, STUDY)
    with pytest.raises(KeyboardInterrupt), demo:
        raise KeyboardInterrupt
    left = f"its nodes' folders are in {demo.folder}" if keep else "nothing of it is left"
    assert out.getvalue() == f"interrupted: all processes of the demonstration have ended, {left}\n"
