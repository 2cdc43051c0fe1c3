"""Code runs from the very bytes that were hashed: not from a cache, not from a file that changed, not from beside."""

import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.learning.errors import ModelError
from parley.models import verified_import
from parley.models.package_files import PackageFiles
from parley.models.verified_import import imported
from tests.support.own_package import NAME, installed

KIND = f"torch:{NAME}.nets:answer"
SOURCE = """
import pkgutil
from pathlib import Path
from importlib import resources
from hospital_models import more

def answer(): return 1, more.ANSWER
def later():
    from . import late
    return late.ANSWER
def data(): return pkgutil.get_data(__package__, "data.bin")
def resource(): return (resources.files(__package__) / "data.bin").read_bytes()
def beside(): return (Path(__file__).parent / "data.bin").read_bytes()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = installed(tmp_path, monkeypatch, SOURCE)
    (package / "more.py").write_text("ANSWER = 2\n")
    (package / "late.py").write_text("ANSWER = 3\n")
    (package / "data.bin").write_bytes(b"public")
    yield package
    verified_import._close(NAME)


def read() -> PackageFiles:
    return PackageFiles.find(f"{NAME}.nets")


def test_all_of_the_package_is_of_the_bytes_that_were_hashed(package: Path) -> None:
    files = read()
    # Between the look and the import somebody writes the sources, and a cache that Python would believe.
    (package / "late.py").write_text("ANSWER = 30\n")
    (package / "more.py").write_text("ANSWER = 20\n")
    py_compile.compile(str(package / "more.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    (package / "nets.py").write_text("def answer(): return 'written'\n")
    assert imported(files, KIND)() == (1, 2)
    assert imported(files, KIND.replace("answer", "later"))() == 3
    assert not list((package / "__pycache__").glob("nets*")), "nothing is written either"
    with pytest.raises(ModelError, match="changed while they were in use"):
        files.require_same()


def test_its_own_data_is_found_as_usual(package: Path) -> None:
    for name in ("data", "resource", "beside"):
        assert imported(read(), f"torch:{NAME}.nets:{name}")() == b"public"


def test_a_module_that_came_later_is_not_found(package: Path) -> None:
    (package / "late.py").unlink()
    files = read()
    (package / "late.py").write_text("ANSWER = 'planted'\n")
    with pytest.raises(ImportError, match=r"cannot import name 'late'|no Python source"):
        imported(files, KIND.replace("answer", "later"))()


def test_other_bytes_are_another_package(package: Path) -> None:
    first = imported(read(), KIND)
    assert imported(read(), KIND) is first, "the same bytes are imported once"
    (package / "more.py").write_text("ANSWER = 5\n")
    assert imported(read(), KIND)() == (1, 5)


def test_what_was_imported_before_is_not_taken_for_it(package: Path) -> None:
    __import__(f"{NAME}.nets")
    sys.modules[f"{NAME}.more"].ANSWER = "patched"  # type: ignore[attr-defined]
    assert imported(read(), KIND)() == (1, 2)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('weights are missing')", "cannot be imported: ValueError: weights are missing"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("def answer(:", "cannot be imported: SyntaxError"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("raise ValueError('a' * 10000)", r"ValueError: a{200,300}\.\.\."),
        ("answer = 3", f"{NAME}.nets has no function answer"),
        ("", f"{NAME}.nets has no function answer"),
    ],
)
def test_what_goes_wrong_in_it_is_said_in_one_line(package: Path, source: str, said: str) -> None:
    (package / "nets.py").write_text(source)
    with pytest.raises(ModelError, match=said) as error:
        imported(read(), KIND)
    assert "\n" not in str(error.value)
    assert f"{NAME}.nets" not in sys.modules or "answer" in said
