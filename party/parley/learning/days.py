"""Days in cells: 1990-12-31, with or without a time after it, or as a file's layout says."""

import datetime
import re
from collections.abc import Callable
from typing import Any

from parley.learning.errors import SchemaError

DAY = "%Y-%m-%d"
PARTS = {"Y": {"Y"}, "m": {"m", "b", "B"}, "d": {"d"}}
"""What a day needs, each in one of these forms; a year of two digits does not say its century."""
TIMES = {"H", "I", "p", "M", "S", "f"}
SAMPLE = datetime.datetime(1999, 12, 31, 23, 58, 57)


def check_days(form: Any) -> None:
    """A form in which whoever reads a cell finds the day again."""
    wrong = SchemaError(f"days is {str(form)[:40]!r}: give year, month and day, as in %d.%m.%Y")
    if not isinstance(form, str) or len(form) > 100 or not form.isprintable():
        raise wrong
    asked = re.findall(r"%(.)", form)
    needed = set().union(*PARTS.values())
    if len(set(asked)) < len(asked) or not set(asked) <= needed | TIMES:
        raise wrong
    if not all(len(forms & set(asked)) == 1 for forms in PARTS.values()):
        raise wrong
    try:
        again = datetime.datetime.strptime(SAMPLE.strftime(form), form)
    except (ValueError, re.error):
        raise wrong from None
    if again.date() != SAMPLE.date():
        raise wrong


def reader_of_days(form: str) -> Callable[[Any], float]:
    """From a cell to the day as Python counts days; a ValueError or TypeError where the cell is no day."""

    def read(cell: Any) -> float:
        if isinstance(cell, datetime.date):  # a datetime is one too
            return float(cell.toordinal())
        if getattr(getattr(cell, "dtype", None), "kind", "") == "M":  # NumPy's, of whatever precision
            cell = str(cell.astype("datetime64[D]"))
            return float(datetime.date.fromisoformat(cell).toordinal())
        if not isinstance(cell, str):
            raise TypeError
        text = cell.strip()
        if form != DAY:
            return float(datetime.datetime.strptime(text, form).toordinal())
        if text[10:11] not in ("", " ", "T"):
            raise ValueError
        return float(datetime.date.fromisoformat(text[:10]).toordinal())

    return read
