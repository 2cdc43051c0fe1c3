"""What the demonstration's command says beside its report."""

import sys
from pathlib import Path

import pytest

from parley.cli.commands.demo import _activate


def test_the_way_to_the_path_is_as_short_as_it_can_be_typed_from_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    assert _activate() == Path(".venv/bin/activate")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert _activate() == tmp_path / ".venv/bin/activate"
