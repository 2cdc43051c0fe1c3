"""What a gradient passes on its way from the records to the share store, and how often a manifest is parsed.

    python benchmarks/gradient_path.py --json gradient-path.json

Three parties, two aggregators and a coordinator, as processes over TLS on this machine, play a few rounds of a run that
nobody admitted beforehand. Each process traces itself (`sys.setprofile`, by benchmarks/trace/sitecustomize.py, which
its environment names) and writes down

- the way of an answer at one party, from the query that reads the records to the end of its upload, and on server A,
  from the call's arrival to the half that is whole in the store of shares. A function is ON THE PATH if the gradient in
  one of its forms (rows, vectors, payloads, messages) is among its arguments or is what it returns, and so is whoever
  calls it with that or gets it back. A function is ENTERED if it ran on the same thread or task meanwhile: also what
  only looks at who calls, notes an event or counts;
- the number of files of both, and how often the top-level folder changes along the path, in the order in which its
  functions are first entered;
- how often `Manifest.from_json`, by which every manifest is parsed, was called for this run: by each process, and by
  the short-lived ones that verify for it.

Of a round in steady state: what only a first round does (connections, keys) is in none of the figures.
"""

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from parley.bench.train_data import LAYOUT, study, write_party
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation

ROOT = Path(__file__).resolve().parent.parent
PARTIES, DIMENSION, ROUNDS = 3, 123, 6
TRACE = Path(__file__).resolve().parent / "trace"
"""A folder for PYTHONPATH: its `sitecustomize` traces."""
Name = tuple[str, str]
"""A function, and its file below the tree."""


def play(folder: Path) -> list[dict[str, Any]]:
    """One run, from its submission to its end: what its processes wrote down, each line with its process."""
    written = folder / "trace"
    written.mkdir()
    data = {}
    for place in range(PARTIES):
        path = folder / f"party-{place + 1}.libsvm"
        write_party(path, place, DIMENSION)
        data[path.stem] = [path]
    manifest = study("path", PARTIES, DIMENSION, ROUNDS)
    with LocalFederation(folder / "nodes", manifest, data, layout=LAYOUT) as federation:
        traced = {
            "PYTHONPATH": f"{TRACE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "PARLEY_TRACE": str(written),
            "PARLEY_TRACED_TREE": str(ROOT),
            "PARLEY_DIMENSION": str(DIMENSION),
        }
        for node in federation.nodes.values():
            node.start(traced)
        for node in federation.nodes.values():
            node.wait_ready()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        if row.state is not State.finished:
            raise SystemExit(f"the run ended as {row}")
    return [
        {**json.loads(line), "process": file.stem}
        for file in written.glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]


def steady(windows: Sequence[dict[str, Any]], end: str) -> dict[str, list[Name]]:
    """The last round that came to this end, with the most functions of them if several processes traced it."""
    last: dict[str, dict[str, Any]] = {}
    for window in windows:
        if window.get("to") == end:
            last[window["process"]] = window
    if not last:
        raise SystemExit(f"no traced process came to {end}")
    most = max(last.values(), key=lambda window: len(window["path"]))
    return {kind: [(name, file) for name, file in most[kind]] for kind in ("entered", "path")}


def figures(names: Sequence[Name]) -> dict[str, int]:
    folders = [file.split("/")[0] for _, file in names]
    return {
        "functions": len(set(names)),
        "files": len({file for _, file in names}),
        "changes_of_folder": sum(one != other for one, other in pairwise(folders)),
    }


def parsed(lines: Iterable[dict[str, Any]]) -> dict[str, int]:
    """By process: how often it parsed a manifest."""
    found: Counter[str] = Counter()
    for line in lines:
        if "parsed" in line:
            module, *arguments = line["command"]
            is_role = Path(module).name == "__main__.py"  # python -m parley.ROLE NODE
            name = f"{Path(module).parent.name} {Path(arguments[-1]).name}" if is_role else "verifying"
            found[f"{name} ({line['process']})"] += 1
    return dict(sorted(found.items()))


def measured() -> dict[str, Any]:
    """Of one run: the figures, and the names behind them."""
    with tempfile.TemporaryDirectory(prefix="parley-path-") as folder:
        lines = play(Path(folder))
    party, server = steady(lines, "Uploader.send"), steady(lines, "Upload.add")
    body: dict[str, Any] = {
        kind: {
            "gradient": figures([*party[kind], *server[kind]]),
            "upload": figures(server[kind]),
            "names": {"party": party[kind], "server": server[kind]},
        }
        for kind in ("path", "entered")
    }
    return {**body, "parsed": parsed(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="Write the figures here, with every function's name.")
    parser.add_argument("--names", action="store_true", help="Print the names of the functions.")
    arguments = parser.parse_args()
    body = measured()
    for kind in ("path", "entered"):
        for what in ("gradient", "upload"):
            print(f"{what:9} {kind:8} {body[kind][what]}")
        for place in ("party", "server") if arguments.names else ():
            print("\n".join(f"    {file}: {name}" for name, file in body[kind]["names"][place]))
    print("parsed", json.dumps(body["parsed"], indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
