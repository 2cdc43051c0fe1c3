"""Who imports whom, room by room: the share of all import pairs that starts in each, at any commit.

    python benchmarks/import_graph.py                      # the working tree
    python benchmarks/import_graph.py 607288b HEAD --json docs/experiments/imports.json

A pair is a module and a module of another room that it imports, once however often; rooms are `parley.<room>`, before
the rooms there were top-level folders. Generated code and tests do not count. Exit code 1 where a room above 25 %, the
command line's above 35 %, is found in the last tree named.
"""

import argparse
import ast
import collections
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOST, MOST_OF_COMMANDS = 0.25, 0.35
COMMANDS = ("cli", "deploy")
"""The command line's room, and what held it before."""


def sources(commit: str) -> dict[str, str]:
    """Every module of ours by its dotted name, and its text; "" for the working tree."""
    listed = (_git("ls-tree", "-r", "--name-only", commit) if commit else _git("ls-files")).splitlines()
    found = {}
    for path in listed:
        if not path.endswith(".py") or "_pb2" in path or path.startswith(("tests/", "tools/", "deploy/tools/")):
            continue
        inside = path.split("parley/", 1)[1] if "/parley/" in path else ""
        if not inside and (path.startswith("benchmarks/") or "/" not in path):
            continue  # scripts
        name = ("parley/" + inside if inside else path).removesuffix(".py").removesuffix("/__init__")
        text = (
            _git("show", f"{commit}:{path}") if commit else (ROOT / path).read_text() if (ROOT / path).exists() else ""
        )
        found[name.replace("/", ".")] = text
    return found


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "parley" and len(parts) > 1 else parts[0]


def imported(text: str, known: set[str]) -> Iterator[str]:
    """Modules of ours that a text imports, wherever it does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [(each.name, "") for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [(node.module, each.name) for each in node.names]
        else:
            continue
        for base, name in names:
            whole = f"{base}.{name}"
            if whole in known or base in known:
                yield whole if whole in known else base


def graph(commit: str) -> dict[str, Any]:
    """Pairs in all, and each room's share of those that start there."""
    modules = sources(commit)
    known = set(modules)
    starts: collections.Counter[str] = collections.Counter()
    for module, text in modules.items():
        others = {each for each in imported(text, known) if room_of(each) != room_of(module)}
        starts[room_of(module)] += len(others)
    total = sum(starts.values())
    return {
        "tree": commit or "working tree",
        "modules": len(modules),
        "pairs": total,
        "share": {room: round(count / total, 4) for room, count in starts.most_common()},
    }


def too_much(found: dict[str, Any]) -> list[str]:
    return [room for room, share in found["share"].items() if share > (MOST_OF_COMMANDS if room in COMMANDS else MOST)]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", default=[""], help="trees to look at, in order")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = [graph(commit) for commit in chosen.commits]
    for each in found:
        print(f"{each['tree']}: {each['modules']} modules, {each['pairs']} pairs between rooms")
        for room, share in each["share"].items():
            print(f"  {share:6.1%}  {room}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"graphs": found}, indent=1) + "\n")
    if wrong := too_much(found[-1]):
        raise SystemExit(f"too much starts in {', '.join(wrong)}")


if __name__ == "__main__":
    main()
