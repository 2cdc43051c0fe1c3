"""Rules of the folder that a reader cannot see at a glance."""

import ast
from pathlib import Path

import parley.privacy

FOLDER = Path(parley.privacy.__file__).parent
DRAWING = {"randomness.py", "ledger.py"}
"""Batches, canaries and noise draw through `Randomness`; the ledger draws its salt."""


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module}
    return found


def test_random_numbers_come_from_one_place_and_never_from_numpy() -> None:
    for path in FOLDER.rglob("*.py"):
        text = path.read_text()
        assert "np.random" not in text, path
        assert not imports(path) & {"random", "numpy.random", "uuid"}, path
        if path.name not in DRAWING:
            assert "urandom" not in text, path
            assert "secrets" not in imports(path), path


def test_the_folder_imports_no_other_of_ours() -> None:
    for path in FOLDER.rglob("*.py"):
        ours = {name for name in imports(path) if name.startswith(("parley.", "tests"))}
        assert {name.split(".")[1] for name in ours} <= {"privacy"}, path


def test_modules_stay_short_and_say_what_they_are() -> None:
    for path in FOLDER.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 400, path
        assert ast.get_docstring(ast.parse(text)), path
