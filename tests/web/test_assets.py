"""An asset's address changes with it, so that browsers may keep what they have."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.web import assets
from parley.web.assets import STATIC, asset


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    asset.cache_clear()
    yield
    asset.cache_clear()


@pytest.mark.parametrize("path", sorted(STATIC.iterdir()), ids=lambda path: path.name)
def test_every_file_has_an_address_by_its_content(path: Path) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert asset(path.name) == f"/static/{path.name}?{digest[:12]}"


def test_another_content_has_another_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "STATIC", tmp_path)
    (tmp_path / "style.css").write_text("a {}")
    first = asset("style.css")
    asset.cache_clear()
    (tmp_path / "style.css").write_text("b {}")
    assert asset("style.css") != first
    with pytest.raises(FileNotFoundError):
        asset("nothing.css")
