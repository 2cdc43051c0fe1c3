"""Rules of the folder that a reader cannot see at a glance."""

import ast
from pathlib import Path

import parley.mpc

FOLDER = Path(parley.mpc.__file__).parent
RANDOM = {"random", "secrets", "numpy.random", "uuid"}
ALLOWED = {"parley.mpc", "parley"}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module}
    return found


def test_only_one_module_draws_random_numbers() -> None:
    for path in FOLDER.rglob("*.py"):
        text = path.read_text()
        if path.name != "randomness.py":
            assert "urandom" not in text, path
        assert "np.random" not in text, path
        assert not imports(path) & RANDOM, path


def test_the_folder_imports_no_other_of_ours() -> None:
    for path in FOLDER.rglob("*.py"):
        ours = {name for name in imports(path) if name.startswith(("parley.", "tests"))}
        assert {name.split(".")[1] for name in ours} <= {"mpc"}, path
