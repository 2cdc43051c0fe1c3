"""What a gradient passes on its way from the records to the share store, and how often a manifest is parsed.

    python benchmarks/gradient_path.py --json gradient-path.json

Three parties, two aggregators and a coordinator, as processes over TLS on this machine, play a few rounds of a run that
nobody admitted beforehand. Each process traces itself (`sys.setprofile`, loaded by a `sitecustomize` that its
environment names) and writes down

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
import sys
import tempfile
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
TRACE = '''
import asyncio, json, os, sys, threading

ROOT, OUT = os.environ["PARLEY_TRACED_TREE"] + "/", os.environ["PARLEY_TRACE"]
BEGIN = {"contribution", "AioAuthorization._single.<locals>.behaviour"}
END = {"Uploader.send", "Upload.add"}
CARRIERS = {"ndarray", "memoryview", "Answer", "_Half", "Batch", "UploadRequest", "Upload"}
GRADIENT_BYTES = 8 * int(os.environ["PARLEY_DIMENSION"])
names, windows = {}, {}

def name_of(code):
    """(function, file) of this project's code; None of other's."""
    found = names.get(code)
    if found is None and code not in names:
        inside = code.co_filename.startswith(ROOT) and "/.venv/" not in code.co_filename
        file = code.co_filename[len(ROOT):]
        plain = inside and not code.co_qualname.endswith((".<genexpr>", ".<listcomp>", ".<dictcomp>", ".<setcomp>"))
        found = names[code] = (code.co_qualname, file) if plain else None
    return found

def carries(value):
    kind = type(value).__name__
    if kind in CARRIERS:
        return True
    if isinstance(value, (bytes, bytearray)):
        return len(value) >= GRADIENT_BYTES
    return isinstance(value, (tuple, list)) and 0 < len(value) < 9 and any(carries(each) for each in value)

def where():
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()

def write(body):
    with open(os.path.join(OUT, f"{os.getpid()}.jsonl"), "a") as file:
        file.write(json.dumps(body) + "\\n")

def profile(frame, event, argument):
    if event not in ("call", "return"):
        return
    code = frame.f_code
    name = name_of(code)
    if name is None:
        return
    if event == "call" and name[0] == "Manifest.from_json":
        write({"parsed": True, "command": sys.argv})
    if not windows and name[0] not in BEGIN:
        return
    place = where()
    window = windows.get(place)
    if window is None:
        if event != "call" or name[0] not in BEGIN:
            return
        window = windows[place] = {"entered": [], "path": set()}
    if event == "call":
        if name not in window["entered"]:
            window["entered"].append(name)
        count = code.co_argcount + code.co_kwonlyargcount
        held = any(carries(frame.f_locals.get(each)) for each in code.co_varnames[:count])
    else:
        held = carries(argument)
    if held:
        window["path"].add(name)
        caller = frame.f_back
        while caller is not None and caller.f_code.co_name.endswith("comp>"):  # of a comprehension: who has it
            caller = caller.f_back
        known = name_of(caller.f_code) if caller is not None else None
        if known is not None:
            window["path"].add(known)
            if known not in window["entered"]:  # it was there before: it asks for the answer and sends it
                window["entered"].insert(0, known)
    if event == "return" and name[0] in END and not (name[0] == "Upload.add" and argument is None):
        del windows[place]
        path = [each for each in window["entered"] if each in window["path"]]
        write({"to": name[0], "entered": window["entered"], "path": path})

threading.setprofile(profile)
sys.setprofile(profile)
'''
Name = tuple[str, str]
"""A function, and its file below the tree."""


def play(folder: Path, trace: Path) -> None:
    """One run, from its submission to its end."""
    (trace / "sitecustomize.py").write_text(TRACE)
    data = {}
    for place in range(PARTIES):
        path = folder / f"party-{place + 1}.libsvm"
        write_party(path, place, DIMENSION)
        data[path.stem] = [path]
    manifest = study("path", PARTIES, DIMENSION, ROUNDS)
    with LocalFederation(folder / "nodes", manifest, data, layout=LAYOUT) as federation:
        tree = str(ROOT)
        os.environ |= {"PYTHONPATH": f"{trace}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        os.environ |= {"PARLEY_TRACE": str(trace), "PARLEY_TRACED_TREE": tree, "PARLEY_DIMENSION": str(DIMENSION)}
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        *_, (row, _) = coordinator.follow(coordinator.submit(manifest))
        if row.state is not State.finished:
            raise SystemExit(f"the run ended as {row}")


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
    found: dict[str, int] = {}
    for line in lines:
        if line.get("parsed"):
            command = line["command"]
            who = " ".join(command[1:2]) if command[1:3][-1:] == ["run"] else "verifying"
            name = f"{who} {Path(command[-1]).name}" if who != "verifying" else who
            found[f"{name} ({line['process']})"] = found.get(f"{name} ({line['process']})", 0) + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="Write the figures here, with every function's name.")
    parser.add_argument("--names", action="store_true", help="Print the names of the functions on the path.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parley-path-") as folder, tempfile.TemporaryDirectory() as trace:
        play(Path(folder), Path(trace))
        lines = [
            {**json.loads(line), "process": file.stem}
            for file in Path(trace).glob("*.jsonl")
            for line in file.read_text().splitlines()
        ]
    party, server = steady(lines, "Uploader.send"), steady(lines, "Upload.add")
    body = {
        kind: {
            "gradient": figures([*party[kind], *server[kind]]),
            "upload": figures(server[kind]),
            "names": {"party": party[kind], "server": server[kind]},
        }
        for kind in ("path", "entered")
    }
    body["parsed"] = parsed(lines)
    for kind in ("path", "entered"):
        for what in ("gradient", "upload"):
            print(f"{what:9} {kind:8} {body[kind][what]}")
        if arguments.names:
            for place in ("party", "server"):
                print("\n".join(f"    {file}: {name}" for name, file in body[kind]["names"][place]))
    print("parsed", json.dumps(body["parsed"], indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
