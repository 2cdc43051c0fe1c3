"""What a column of an undescribed file seems to be: kind, words, gaps. It tells of records, so it is their operator's.

Bounds are never guessed from values: where a column's name does not tell public ones (`parley.learning.known`), they
stay open for a person. That a column holds 0 and 1 alone is seen in the records too: a source has to say that no other
value can come. Nothing is left out because it is rare: a rule by counts would tell what is rare.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from parley.learning.checks import label_of
from parley.learning.days import DAY, reader_of_days
from parley.learning.holding import CSV
from parley.learning.known import FLAG, Known, known_bounds, words_of
from parley.learning.readers import Table
from parley.learning.sniff import is_number

GAPS = (*CSV.missing, "#N/A", "n/a", "na", "NULL", "None", "none", "-", "--", ".", "unknown", "Unknown")
"""Words that people write for nothing: the ones that are looked for."""
PLAIN_GAPS = frozenset(GAPS) - {"none", "None", "unknown", "Unknown", "-", "."}
"""Those that mean nothing in a column of words too."""
MOST_WORDS = 60
"""Different words of a column that still may be categories."""
MOST_CODES = 12
"""Different whole numbers that still may be codes."""
MOST_ODD = 0.05
"""Of a column's cells that are no numbers, before it is none of numbers."""
MOST_ODD_WORDS = 5
FORMS = (DAY, "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%b-%Y", "%Y-%m-%d %H:%M:%S")
IDENTIFIER = re.compile(r"(.* )?(id|ids|identifier|nbr|mrn|uuid|guid|key|patient|subject|person|pid|member|customer)")


@dataclass(frozen=True)
class Guess:
    """A column as it seems."""

    name: str
    kind: str
    """number, category, date, text (what no model takes), identifier or empty."""
    words: tuple[str, ...] = ()
    """Of a category, all of them."""
    known: Known | None = None
    """Public bounds by the column's name; `FLAG` if it has none and holds 0 and 1 alone."""
    gaps: frozenset[str] = frozenset()
    """Words that seem to mean an empty cell."""
    odd: tuple[str, ...] = ()
    """Other cells that are no number, or no day."""
    form: str = DAY
    """Of days."""
    distinct: int = 0
    repeats: bool = False
    """Whether one of its values is in several rows."""


def guesses(table: Table) -> list[Guess]:
    """Of every column, in the file's order."""
    return [guess(name, cells) for name, cells in table.columns.items()]


def guess(name: str, cells: Sequence[Any]) -> Guess:
    """Of one."""
    counts = Counter("" if cell is None or cell != cell else str(cell).strip() for cell in cells)
    gaps = frozenset(word for word in counts if word in GAPS and word)
    words = {word: count for word, count in counts.items() if word not in gaps and word}
    if not words:
        return Guess(name, "empty", gaps=gaps)
    repeats = any(count > 1 for count in words.values())
    odd = [word for word in words if not is_number(word)]
    if len(odd) <= MOST_ODD_WORDS and sum(words[word] for word in odd) <= MOST_ODD * sum(words.values()):
        return _number(name, words, gaps, repeats)
    if (form := _form(words)) is not None:
        return Guess(name, "date", gaps=gaps, form=form, distinct=len(words), repeats=repeats)
    kept = frozenset(each for each in gaps if each in PLAIN_GAPS)
    listed = sorted(words.keys() | (gaps - kept), key=str.casefold)
    if IDENTIFIER.fullmatch(words_of(name)) and len(listed) > MOST_WORDS:
        return Guess(name, "identifier", gaps=kept, distinct=len(listed), repeats=repeats)
    if len(listed) > MOST_WORDS or not all(word.isprintable() for word in listed):
        return Guess(name, "text", gaps=kept, distinct=len(listed), repeats=repeats)
    return Guess(name, "category", tuple(listed), gaps=kept, distinct=len(listed), repeats=repeats)


def _number(name: str, words: dict[str, int], gaps: frozenset[str], repeats: bool) -> Guess:
    odd = tuple(sorted(word for word in words if not is_number(word)))
    labels = {label_of(word) for word in words if is_number(word)}
    known, named = known_bounds(name), IDENTIFIER.fullmatch(words_of(name))
    whole = all(label.lstrip("-").isdigit() for label in labels)
    seen = Guess(name, "number", known=known, gaps=gaps, odd=odd, distinct=len(labels), repeats=repeats)
    if known is None and labels <= {"0", "1"}:
        return replace(seen, known=FLAG)
    if known is None and named and whole and len(labels) > MOST_WORDS:
        return replace(seen, kind="identifier")
    if known is None and whole and len(labels) <= (MOST_WORDS if named else MOST_CODES) and repeats:
        return replace(seen, kind="category", words=tuple(sorted(labels, key=float)))
    return seen


def _form(words: dict[str, int]) -> str | None:
    """In which all its words are days."""
    for form in FORMS:
        read = reader_of_days(form)
        try:
            for word in words:
                read(word)
        except (ValueError, TypeError):
            continue
        return form
    return None
