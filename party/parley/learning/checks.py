"""What a field of a schema may be, whoever wrote it: types and ranges, each refusal with what to write instead."""

from typing import Any

from parley.learning.errors import SchemaError

LARGEST_NUMBER = 1e30
"""Of a bound, a centre or a spread; a spread is at least its inverse."""
LONGEST_TEXT = 1000


def label_of(value: Any) -> str:
    """One spelling per number, so that 1, 1.0 and +1 are the same label."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def check_finite(where: str, what: str, value: Any) -> float:
    """A number that float64 holds well."""
    right = not isinstance(value, bool) and isinstance(value, int | float)
    if not right or not abs(value) <= LARGEST_NUMBER:
        shown = str(value)[:40]  # a stranger's, perhaps: nothing that a terminal would obey
        shown = shown if shown.isprintable() else repr(shown)
        raise SchemaError(f"{where}: {what} is {shown}, give a finite public number up to {LARGEST_NUMBER:g}")
    return float(value)


def check_text(where: str, what: str, value: Any) -> str:
    """One line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_TEXT:
        raise SchemaError(f"{where}: {what} is {str(value)[:40]!r}, give one line of text")
    return value


def check_texts(where: str, what: str, values: Any) -> tuple[str, ...]:
    """A list of short texts, which may be empty ones."""
    if not isinstance(values, tuple) or not all(
        isinstance(each, str) and len(each) <= LONGEST_TEXT and (not each or each.isprintable()) for each in values
    ):
        raise SchemaError(f"{where}: {what} is not a list of short texts: give one")
    return values


def check_whole(where: str, what: str, value: Any, low: int, high: int) -> int:
    """A whole number in these limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SchemaError(f"{where}: {what} is {str(value)[:40]}, use a whole number from {low:,} to {high:,}")
    return value


def check_flag(where: str, what: str, value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise SchemaError(f"{where}: {what} is {str(value)[:40]}, use true or false")
    return value


def check_choice(where: str, what: str, value: Any, known: tuple[str, ...]) -> str:
    """One of these words."""
    if not isinstance(value, str) or value not in known:
        raise SchemaError(f"{where}: {what} is {str(value)[:40]!r}, use {' or '.join(known)}")
    return value


def check_distinct(where: str, labels: tuple[str, ...]) -> None:
    """No label twice, in whatever spelling."""
    if len({label_of(each) for each in labels}) < len(labels):
        raise SchemaError(f"{where}: list each label once (1 and 1.0 are one label)")
