"""One entry for many columns of equal meaning: name = "gene_{1..1800}", or names = ["a", "b", …].

A pattern has one range of whole numbers. Where its first number begins with zeros, all have as many digits. A schema
holds the columns one by one; documents may hold them in one entry, so that 1,800 columns do not make a manifest long.
"""

import re
from collections.abc import Sequence
from typing import Any

from parley.learning.checks import LONGEST_TEXT
from parley.learning.errors import SchemaError

RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
MOST_EXPANDED = 1 << 14
"""Columns that all the patterns of one document stand for: a short manifest comes from a stranger too."""


def count_of(name: str) -> int:
    """How many columns a pattern stands for; 1 for a plain name."""
    return 1 if (found := _range(name)) is None else found[2] - found[1] + 1


def expanded(name: str) -> list[str]:
    """The columns of a pattern, or of a plain name."""
    if (found := _range(name)) is None:
        return [name]
    match, first, last = found
    if last - first >= MOST_EXPANDED:
        raise SchemaError(f"{name}: stands for over {MOST_EXPANDED:,} columns, give features one count instead")
    digits = len(match[1]) if match[1].startswith("0") and len(match[1]) > 1 else 0
    before, after = name[: match.start()], name[match.end() :]
    return [f"{before}{number:0{digits}d}{after}" for number in range(first, last + 1)]


def _range(name: str) -> tuple[re.Match[str], int, int] | None:
    match = RANGE.search(name) if len(name) <= LONGEST_TEXT else None
    if match is None:
        return None
    first, last = int(match[1]), int(match[2])
    if RANGE.search(name, match.end()) or first > last:
        raise SchemaError(f"{name}: give one range from a lower number to a higher one, as in gene_{{1..1800}}")
    return match, first, last


def shortened(names: Sequence[str]) -> dict[str, Any]:
    """How one entry names these columns: by a name, a pattern or a list; `expanded` and the list are its inverse."""
    if len(names) == 1:
        return {"name": names[0]} if RANGE.search(names[0]) is None else {"names": list(names)}
    for match in re.finditer(r"[0-9]{1,9}", names[0]):
        before, after = names[0][: match.start()], names[0][match.end() :]
        pattern = f"{before}{{{match[0]}..{_number_in(names[-1], before, after)}}}{after}"
        if len(RANGE.findall(pattern)) == 1 and _stands_for(pattern, names):
            return {"name": pattern}
    return {"names": list(names)}


def _number_in(name: str, before: str, after: str) -> str:
    return name[len(before) : len(name) - len(after)]


def _stands_for(pattern: str, names: Sequence[str]) -> bool:
    try:
        return count_of(pattern) == len(names) and expanded(pattern) == list(names)
    except SchemaError:
        return False
