"""A table as TOML: what `tomllib` reads back as the same. For manifests; standard library only."""

import json
from collections.abc import Mapping
from typing import Any


def toml_text(body: Mapping[str, Any]) -> str:
    """Plain values first, then a section per table and per list of tables; deeper tables are inline."""
    plain, tables = [], []
    for name, value in body.items():
        if isinstance(value, Mapping):
            tables.append(f"[{_key(name)}]\n{_lines(value)}")
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            tables += [f"[[{_key(name)}]]\n{_lines(each)}" for each in value]
        else:
            plain.append(f"{_key(name)} = {_value(value)}\n")
    return "\n".join(["".join(plain), *tables])


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    raise TypeError(f"{type(value).__name__} has no place in TOML")


def _key(name: str) -> str:
    bare = name and all(each.isascii() and (each.isalnum() or each in "_-") for each in name)
    return name if bare else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
