"""Fixtures of this room's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tracked import Ended, ended_run


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """For reading; a tracker's own notes are by place, so that each test has a place of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield ended_run(tmp_path_factory.mktemp("ended"), monkeypatch)


@pytest.fixture
def folder(ended: Ended) -> Path:
    return ended.folder
