"""Loaded at the start of every process that has this folder in PYTHONPATH: it traces as gradient_path.py says.

Writes a line of JSON for each parsed manifest, and for each answer that has come to its end.
"""

import asyncio
import json
import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

ROOT, OUT = os.environ["PARLEY_TRACED_TREE"] + "/", os.environ["PARLEY_TRACE"]
GRADIENT_BYTES = 8 * int(os.environ["PARLEY_DIMENSION"])
PARSER = "Manifest.from_json"
BEGIN = {"contribution", "AioAuthorization._single.<locals>.behaviour"}
END = {"Uploader.send", "Upload.add"}
CARRIERS = {"ndarray", "memoryview", "Answer", "_Half", "Batch", "UploadRequest", "Upload"}
"""Types that the gradient has on its way."""
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
Name = tuple[str, str]
"""A function, and its file below the tree."""
names: dict[CodeType, Name | None] = {}
windows: dict[Any, tuple[list[Name], set[Name]]] = {}
"""By thread or task: what was entered since the beginning, and what of it is on the path."""


def name_of(code: CodeType) -> Name | None:
    """None where it is not this project's, and for comprehensions, which are part of a function."""
    if code not in names:
        ours = code.co_filename.startswith(ROOT) and "/.venv/" not in code.co_filename
        plain = ours and code.co_name not in COMPREHENSIONS
        names[code] = (code.co_qualname, code.co_filename[len(ROOT) :]) if plain else None
    return names[code]


def carries(value: object) -> bool:
    """Whether the gradient is in it, or is it."""
    if isinstance(value, bytes | bytearray):
        return len(value) >= GRADIENT_BYTES
    if isinstance(value, tuple | list):
        return len(value) < 9 and any(carries(each) for each in value)
    return type(value).__name__ in CARRIERS


def place() -> Any:
    try:
        return asyncio.current_task() or threading.get_ident()
    except RuntimeError:
        return threading.get_ident()


def write(body: dict[str, Any]) -> None:
    with open(os.path.join(OUT, f"{os.getpid()}.jsonl"), "a") as file:
        file.write(json.dumps(body) + "\n")


def caller_of(frame: FrameType) -> Name | None:
    caller = frame.f_back
    while caller is not None and caller.f_code.co_name in COMPREHENSIONS:
        caller = caller.f_back
    return None if caller is None else name_of(caller.f_code)


def profile(frame: FrameType, event: str, argument: Any) -> None:
    code = frame.f_code
    name = name_of(code) if event in ("call", "return") else None
    if name is None:
        return
    if event == "call" and name[0] == PARSER:
        write({"parsed": True, "command": sys.argv})
    begins = event == "call" and name[0] in BEGIN
    if not windows and not begins:
        return
    here = place()
    if here not in windows and not begins:
        return
    entered, path = windows.setdefault(here, ([], set()))
    if event == "call":
        if name not in entered:
            entered.append(name)
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        passed = any(carries(frame.f_locals.get(each)) for each in given)
    else:
        passed = carries(argument)
    if passed:
        path.add(name)
        if (caller := caller_of(frame)) is not None:
            path.add(caller)
            if caller not in entered:  # it began before: it asks for the answer, or sends it
                entered.insert(0, caller)
    if event == "return" and name[0] in END and argument is not None:
        del windows[here]
        write({"to": name[0], "entered": entered, "path": [each for each in entered if each in path]})


threading.setprofile(profile)
sys.setprofile(profile)
