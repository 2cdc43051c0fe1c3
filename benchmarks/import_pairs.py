"""Where the imports between rooms start: a room from which most of them start knows everybody, and hides nothing.

    python benchmarks/import_pairs.py

A pair is a module and a module of another room that it imports, wherever in its text; the wire's generated code counts.
"""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules() -> dict[str, Path]:
    """By dotted name."""
    found: dict[str, Path] = {}
    for place in ROOT.glob("*/parley"):
        for path in place.rglob("*.py"):
            parts = path.relative_to(place.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of this product that a file names in its imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known.keys() or {node.module}
    return found & known.keys()


def room(module: str) -> str:
    return module.split(".")[1]


def pairs() -> set[tuple[str, str]]:
    known = modules()
    return {
        (name, other) for name, path in known.items() for other in imported(path, known) if room(other) != room(name)
    }


def shares() -> dict[str, float]:
    """Of all pairs, how many start in each room; the largest first."""
    counts = Counter(room(name) for name, _ in pairs())
    return {name: count / counts.total() for name, count in counts.most_common()}


if __name__ == "__main__":
    print(f"{len(pairs())} pairs between rooms; they start in")
    for name, share in shares().items():
        print(f"{name:12} {share:6.1%}")
