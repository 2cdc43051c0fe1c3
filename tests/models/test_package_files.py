"""A package's files are read as they lie there, all of them, and nothing of them is run."""

import os
import sys
import zipfile
from pathlib import Path

import pytest

from parley.learning.errors import ModelError
from parley.models.package_files import PackageFiles
from tests.support.own_package import NAME, installed


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return installed(tmp_path / "here", monkeypatch, source="raise SystemExit('it was run')\n")


def found() -> PackageFiles:
    return PackageFiles.find(f"{NAME}.nets")


def test_all_files_count_but_pythons_own_cache(package: Path) -> None:
    (package / "weights.bin").write_bytes(b"\x00" * 2_000_000)
    (package / "inner").mkdir()
    (package / "inner" / "more.py").write_text("")
    before = found()
    assert [name for name, _, _ in before.files] == ["__init__.py", "inner/more.py", "nets.py", "weights.bin"]
    assert before.name == NAME
    assert before.is_package
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "nets.cpython-311.pyc").write_bytes(b"anything")
    assert found().canonical == before.canonical
    assert NAME not in sys.modules


@pytest.mark.parametrize("change", ["a byte", "a name", "a new file", "one less", "bytes that move to another file"])
def test_any_change_of_any_file_shows(package: Path, change: str) -> None:
    (package / "data.bin").write_bytes(b"ab")
    (package / "more.bin").write_bytes(b"cd")
    before = found().canonical
    if change == "a byte":
        (package / "data.bin").write_bytes(b"ac")
    elif change == "a name":
        (package / "data.bin").rename(package / "date.bin")
    elif change == "a new file":
        (package / "nets.pyc").write_bytes(b"")
    elif change == "one less":
        (package / "more.bin").unlink()
    else:
        (package / "data.bin").write_bytes(b"a")
        (package / "more.bin").write_bytes(b"bcd")
    assert found().canonical != before
    with pytest.raises(ModelError, match=f"the files of {NAME} changed"):
        PackageFiles(found().name, package, True, (), {}).require_same()


def test_a_name_is_of_the_first_regular_package_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("wide/inner", "wide/inner/deep"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "wide" / "inner" / "__init__.py").write_text("")
    (tmp_path / "wide" / "inner" / "deep" / "nets.py").write_text("")
    (tmp_path / "wide" / "beside.py").write_text("")
    (tmp_path / "alone.py").write_text("")
    (tmp_path / "empty").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    inner = PackageFiles.find("wide.inner.deep.nets")
    assert (inner.name, len(inner.files)) == ("wide.inner", 2)
    assert inner.source_of("wide.inner.deep.nets") == ("deep/nets.py", False)
    assert inner.source_of("wide.inner.deep") is None
    alone = PackageFiles.find("alone")
    assert (alone.name, alone.is_package, [each[0] for each in alone.files]) == ("alone", False, ["alone.py"])
    assert PackageFiles.find("wide.beside").name == "wide.beside"
    for name, said in (
        ("empty", "is a folder without __init__.py"),
        ("alone.more", "alone is a module and no package"),
        ("nowhere.nets", "there is no module nowhere here: install the package"),
        ("wide.nothing", "there is no module wide.nothing here"),
        ("sys", "is not a package of Python files"),
        ("_socket", "is not a package of Python files"),
    ):
        with pytest.raises(ModelError, match=said):
            PackageFiles.find(name)
    with pytest.raises(ModelError, match="keep module and loss in one package"):
        inner.require_within("wide.innermost")


def test_what_is_no_plain_file_is_refused(package: Path, tmp_path: Path) -> None:
    os.mkfifo(package / "pipe.py")
    with pytest.raises(ModelError, match="is no file: take it out of the package"):
        found()
    (package / "pipe.py").unlink()
    (tmp_path / "elsewhere").mkdir()
    (package / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="is a link to a folder: put a copy"):
        found()
    (package / "linked").unlink()
    (package / "gone.py").symlink_to(tmp_path / "nowhere.py")
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        found()
    (package / "gone.py").unlink()
    (package / "new\nline.py").write_text("")
    with pytest.raises(ModelError, match="a file with an odd name"):
        found()


def test_a_file_by_a_link_counts_by_what_is_in_it(package: Path, tmp_path: Path) -> None:
    """Some installers link every file to a store."""
    before = found().canonical
    source = package / "nets.py"
    (tmp_path / "stored.py").write_bytes(source.read_bytes())
    source.unlink()
    source.symlink_to(tmp_path / "stored.py")
    assert found().canonical == before


def test_a_package_in_a_zip_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("zipped_models/__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    with pytest.raises(ModelError, match="not compiled and not in a zip"):
        PackageFiles.find("zipped_models")
