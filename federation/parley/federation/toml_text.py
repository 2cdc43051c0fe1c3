"""A table as TOML that people can read: what `tomllib` reads back as the same table."""

import json
from collections.abc import Mapping
from typing import Any

MOST_INLINE = 100


def toml_text(body: Mapping[str, Any], where: str = "") -> str:
    """Plain values first, then a section per table, and one per entry of a list of tables."""
    plain = {name: value for name, value in body.items() if not _is_table(value) and not _is_tables(value)}
    lines = [f"{_key(name)} = {_value(value)}" for name, value in plain.items()]
    for name, value in body.items():
        path = f"{where}{_key(name)}"
        if _is_table(value):
            inline = f"{_key(name)} = {_value(value)}"
            if where and len(inline) <= MOST_INLINE:
                lines.insert(len(plain), inline)
            else:
                lines += ["", f"[{path}]", toml_text(value, f"{path}.")]
        elif _is_tables(value):
            if where:
                lines.insert(
                    len(plain), f"{_key(name)} = [\n" + "".join(f"    {_value(each)},\n" for each in value) + "]"
                )
            else:
                for each in value:
                    lines += ["", f"[[{path}]]", toml_text(each, f"{path}.")]
    return "\n".join(lines).strip("\n")


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    """One line; JSON's strings and numbers are TOML's, but for what is not finite and for DEL."""
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value, allow_nan=False)
