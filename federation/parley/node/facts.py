"""What a node may write down about itself, in logs and in its audit trail: a list of names, each with one type.

Everything that is not on the list is private until somebody has argued otherwise and added it here. Checks are on exact
types, so no array, no bytes and no object with a `__str__` of its own ever reaches a file, whatever it is called; whole
numbers are bounded, so that no word of a share passes for a count.
"""

import datetime as dt
import math
import re
from collections.abc import Callable
from enum import Enum
from typing import Any

from parley.federation.names import URI, NodeName, is_label

Fact = str | int | float | bool | list[str] | list[int]
LARGEST_COUNT = 1 << 48
LARGEST_SECONDS = 1e9
MOST_NAMES = 1000
WORD = re.compile(r"[A-Za-z][A-Za-z_.-]{0,63}")
"""No digits: no number is spelled in one."""
DIGEST = re.compile(r"[0-9a-f]{16,64}")
EVENT_ID = re.compile(r"(party|aggregator|coordinator)/[a-z0-9-]{1,63}/[1-9][0-9]{0,17}-[0-9a-f]{16}")
ADDRESS = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):[0-9]{1,5}")
FIELD = re.compile(r"[a-z_]{1,40}(\[[0-9]{1,5}\])?(\.[a-z_]{1,40}){0,4}")
"""Of a manifest or a policy."""
MOMENT = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
"""UTC, to the second."""
VERSION = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}([+.-]?[a-z]{1,9}[0-9]{0,3})?")


def count(value: Any) -> int | None:
    return value if type(value) is int and -1 <= value <= LARGEST_COUNT else None


def seconds(value: Any) -> float | None:
    """To the microsecond."""
    right = type(value) in (int, float) and 0 <= value <= LARGEST_SECONDS
    return round(float(value), 6) if right else None


def figure(value: Any) -> float | None:
    """A parameter of the run: six digits are enough for people, and too few for anything else."""
    return float(f"{value:.6g}") if type(value) in (int, float) and math.isfinite(value) and value >= 0 else None


def flag(value: Any) -> bool | None:
    return value if type(value) is bool else None


def name(value: Any) -> str | None:
    """A node's name or URI, a run's, a federation's."""
    if isinstance(value, NodeName):
        return value.uri
    return value if type(value) is str and (is_label(value) or URI.fullmatch(value) is not None) else None


def names(value: Any) -> list[str] | None:
    if type(value) not in (list, tuple, set, frozenset) or len(value) > MOST_NAMES:
        return None
    found = [name(each) for each in value]
    return sorted(each for each in found if each is not None) if None not in found else None


def event_ids(value: Any) -> list[str] | None:
    """Of peers' events."""
    if type(value) not in (list, tuple) or len(value) > MOST_NAMES:
        return None
    found = [event_id(each) for each in value]
    return [each for each in found if each is not None] if None not in found else None


def counts(value: Any) -> list[int] | None:
    """Ports."""
    right = type(value) in (list, tuple) and len(value) <= 8 and all(type(each) is int for each in value)
    return list(value) if right and all(0 <= each < 1 << 16 for each in value) else None


def two_counts(value: Any) -> list[int] | None:
    """Of both servers."""
    if type(value) not in (list, tuple) or len(value) != 2:
        return None
    found = [count(each) for each in value]
    return [each for each in found if each is not None] if None not in found else None


def _matching(pattern: re.Pattern[str]) -> Callable[[Any], str | None]:
    def matching(value: Any) -> str | None:
        plain = value.value if isinstance(value, Enum) else value
        return plain if type(plain) is str and pattern.fullmatch(plain) is not None else None

    return matching


word, digest, event_id = _matching(WORD), _matching(DIGEST), _matching(EVENT_ID)
field_path = _matching(FIELD)
address, version = _matching(ADDRESS), _matching(VERSION)


def moment(value: Any) -> str | None:
    """Until when something public is waited for: a time that there is."""
    try:
        right = type(value) is str and MOMENT.fullmatch(value) is not None and dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    return value if right else None


def person(value: Any) -> str | None:
    """Who answers for an approval, or what its operator calls a population: in the audit trail only."""
    return value if type(value) is str and 1 <= len(value) <= 80 and value.isprintable() else None


def sentence(value: Any) -> str | None:
    """What a person answers for: in the audit trail only."""
    return value if type(value) is str and 1 <= len(value) <= 300 and value.isprintable() else None


def _fields(check: Callable[[Any], Fact | None], listed: str) -> dict[str, Callable[[Any], Fact | None]]:
    return dict.fromkeys(listed.split(), check)


FACTS: dict[str, Callable[[Any], Fact | None]] = {
    **_fields(
        count,
        "round rounds bytes bytes_up bytes_down calls count parties present expected minimum dimension samples "
        "capacity openings releases attempt attempts port sequence pid signal exit_code line runs committed "
        "prepared days audits_made audits_passed server",
    ),
    **_fields(
        seconds, "seconds deadline_seconds wait_seconds noise_seconds upload_seconds open_seconds uptime_seconds"
    ),
    **_fields(figure, "epsilon delta epsilon_left delta_left"),
    **_fields(flag, "accepted resumed late again ready final"),
    **_fields(name, "run federation party peer caller aggregator coordinator by"),
    **_fields(names, "missing contributors members"),
    **_fields(counts, "ports"),
    **_fields(two_counts, "audits"),
    **_fields(digest, "manifest query digest upload contributors_digest fingerprint source epoch"),
    **_fields(event_id, "peer_event event_id"),
    **_fields(event_ids, "peer_events"),
    **_fields(word, "state outcome kind method code status algorithm model listener how phase logger precision cover"),
    **_fields(word, "error refusal command service"),
    **_fields(field_path, "field"),
    **_fields(address, "address"),
    **_fields(version, "version"),
    **_fields(moment, "until"),
}
"""For logs and the trail alike."""
TRAIL_FACTS = {**FACTS, "approved_by": person, "population": person, "data_set": name, "reason": sentence}


def words(text: Any) -> bool:
    """Whether `text` is an event's name: words without a digit, so that nothing formatted into it survives."""
    return type(text) is str and re.fullmatch(r"[A-Za-z][A-Za-z ,'_.-]{0,79}", text) is not None
