"""Who answers for a run in law, and what for: words of a manifest for people, which no computation uses.

    [legal]                                # optional, and so is each of its fields
    purpose = "Which patients with chest pain need a catheter examination"
    legal_basis = "Art. 9(2)(j) GDPR with section 27 BDSG"
    ethics_number = "EK 2026-114"
    expires = "2027-12-31"                 # the last day on which anybody takes part
    retention = "The model is kept for ten years; answers are erased after each round"
    [[parties]]
    legal_entity = "St. Anna Hospital gGmbH"   # optional
    contact = "privacy@anna.example"           # optional; of aggregators and the coordinator, too

They are in the canonical form, and so in the digest, where they are given; a manifest without them has the bytes that
it always had. Whoever writes a manifest could write anything, so that all of it is one short line of text that shows
what it is: no control characters, none that turn or hide what stands beside them. Whoever shows it escapes it.
`expires` alone is acted on: no node admits an expired run, and no party answers one.
"""

import datetime as dt
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from parley.federation.fields import Fields

if TYPE_CHECKING:
    from parley.federation.manifest import Manifest

LONGEST = 200
"""Characters of one line."""
LONGEST_PURPOSE = 500
MOST_MARKS = 2
"""Accents on one letter: piled up, they cover the lines above and below."""


@dataclass(frozen=True)
class Legal:
    """What the run is for and by what right; each field is empty where the manifest does not say."""

    purpose: str = ""
    legal_basis: str = ""
    ethics_number: str = ""
    expires: str = ""
    """The last day, as 2027-12-31, UTC."""
    retention: str = ""

    def as_json(self) -> dict[str, str]:
        """What is said, and no more."""
        return {name: text for name, text in vars(self).items() if text}

    def expired(self, now: dt.datetime | None = None) -> bool:
        """Whether its last day is over."""
        today = (now or dt.datetime.now(dt.UTC)).date()
        return bool(self.expires) and today > dt.date.fromisoformat(self.expires)


@dataclass(frozen=True)
class Institution:
    """Who a party is in law, and whom to write to; empty where the manifest does not say."""

    legal_entity: str = ""
    contact: str = ""

    def as_json(self) -> dict[str, str]:
        return {name: text for name, text in vars(self).items() if text}


NOBODY = Institution()
NO_INSTITUTIONS: Mapping[str, Institution] = MappingProxyType({})
DEMANDS = (*(each.name for each in fields(Legal)), *(each.name for each in fields(Institution)))
"""What a party's policy may `require`: a field of [legal], or one of every institution."""


def words(where: Fields, name: str, longest: int = LONGEST) -> str:
    """One short line that shows what it is."""
    text = where.text(name)
    if len(text) > longest:
        raise where.refuse(name, f"has {len(text):,} characters: give at most {longest}")
    if piled(text):
        raise where.refuse(name, f"has more than {MOST_MARKS} accents on one letter: write it without")
    return text


def piled(text: str) -> bool:
    """Whether marks are heaped on a letter."""
    run = 0
    for each in text:
        run = run + 1 if unicodedata.category(each) in ("Mn", "Me") else 0
        if run > MOST_MARKS:
            return True
    return False


def optional_words(where: Fields, name: str) -> str:
    """The same, or nothing."""
    return words(where, name) if where.has(name) else ""


def legal_of(document: Fields) -> Legal | None:
    """The optional table [legal] of a manifest or a study."""
    if not document.has("legal"):
        return None
    table = document.table("legal")
    found = {
        each.name: words(table, each.name, LONGEST_PURPOSE if each.name == "purpose" else LONGEST)
        for each in fields(Legal)
        if table.has(each.name)
    }
    table.finish()
    if not found:
        raise document.refuse("legal", "is empty: say something in it, or leave it out")
    if (day := found.get("expires")) is not None and not _is_day(day):
        raise table.refuse("expires", f'is {day!r}: give a day as "2027-12-31", in quotes')
    return Legal(**found)


def institution_of(party: Fields) -> Institution:
    """What one of [[parties]] says of its institution."""
    return Institution(optional_words(party, "legal_entity"), optional_words(party, "contact"))


def institutions_from(parties: list[Fields]) -> tuple[tuple[str, Institution], ...]:
    """Of those parties of whom anything is said, in the manifest's order."""
    found = [(each.label("name"), institution_of(each)) for each in parties]
    return tuple((name, institution) for name, institution in found if institution != NOBODY)


def with_institutions(tables: list[dict[str, Any]], institutions: Mapping[str, Institution]) -> list[dict[str, Any]]:
    """A manifest's [[parties]] with them."""
    return [{**table, **institutions.get(table["name"], NOBODY).as_json()} for table in tables]


def unsaid(manifest: "Manifest", demands: frozenset[str]) -> list[str]:
    """Where a manifest does not say what a policy demands, by the fields' places."""
    found = [f"legal.{name}" for name, text in vars(manifest.legal or Legal()).items() if name in demands and not text]
    institutions = dict(manifest.institutions)
    for name in (each.name for each in fields(Institution)):
        if name not in demands:
            continue
        found += [
            f"parties[{index}].{name}"
            for index, party in enumerate(manifest.parties)
            if not getattr(institutions.get(party, NOBODY), name)
        ]
        found += [
            f"aggregators[{index}].{name}"
            for index, operator in enumerate(manifest.aggregators)
            if not getattr(operator, name)
        ]
        found += [] if getattr(manifest.coordinator, name) else [f"coordinator.{name}"]
    return found


def sentences(manifest: "Manifest") -> list[str]:
    """For the person who has to approve a run."""
    legal = manifest.legal or Legal()
    titles = {
        "purpose": "Purpose",
        "legal_basis": "Legal basis",
        "ethics_number": "Ethics number",
        "expires": "Expires after",
        "retention": "Retention",
    }
    found = [f"{titles[name]}: {text}." for name, text in vars(legal).items() if text]
    said = [f"{party}: " + ", ".join(institution.as_json().values()) for party, institution in manifest.institutions]
    return found + ([f"Institutions: {'; '.join(said)}."] if said else [])


def _is_day(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text and text >= "2000"
    except ValueError:
        return False
