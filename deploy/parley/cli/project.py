"""What `parley init STUDY --parties …` writes: one study, who takes part and where, and the steps of everybody."""

import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from parley.cli.console import CommandError
from parley.federation.fields import Fields
from parley.federation.names import LABEL_RULE, Role, is_label
from parley.federation.people import words
from parley.federation.toml_text import toml_text
from parley.learning.schema import schema_from_json
from parley.node.invitation import ADDRESSES, InvitationError, Member, address_of, members_from
from parley.node.membership import FEDERATION_FILE, STUDY_FILE, Plan
from parley.node.newcomer import FEWEST_PARTIES, USUAL_PORTS
from parley.node.node_file import Address
from parley.privacy.durable import replace_durably

GUESSED_UNITS = 100
MOST_UNITS = 1 << 40
LARGEST_PORT = 65535
COLUMNS: dict[str, Any] = {
    "intercept": True,
    "target": {"name": "sick", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    "features": [
        {"kind": "number", "name": "age", "low": 20.0, "high": 90.0},
        {"kind": "number", "name": "pressure", "low": 80.0, "high": 220.0, "missing": "centre"},
        {
            "kind": "category",
            "name": "pain",
            "categories": ["typical", "atypical", "none"],
            "missing": "zero",
            "other": "zero",
        },
    ],
}
"""Of `parley init`'s example: whoever has records of their own gives --schema."""


@dataclass(frozen=True)
class Wanted:
    """What the options of `parley init` say."""

    folder: Path
    parties: Mapping[str, int]
    guessed: Sequence[str]
    """Parties whose number of units nobody has said."""
    aggregators: Sequence[str]
    coordinator: str
    hosts: Mapping[str, str]
    organisations: Mapping[str, str]
    federation: str
    epsilon: float
    delta: float
    columns: Mapping[str, Any]
    local: bool
    port_base: int | None

    @property
    def servers(self) -> list[str]:
        return [self.coordinator, *self.aggregators]


def pairs(text: str, what: str) -> dict[str, str]:
    """From `a=1,b=2`; a name without = gets nothing."""
    found: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = each.partition("=")
        if not is_label(name):
            raise CommandError(f"{what} has the name {name[:80]!r}: use {LABEL_RULE}")
        if name in found:
            raise CommandError(f"{what} has {name} twice: give each once")
        found[name] = value.strip()
    return found


def counted(parties: Mapping[str, str]) -> tuple[dict[str, int], list[str]]:
    """How many units each has, and of whom that is a guess."""
    found: dict[str, int] = {}
    for name, text in parties.items():
        if text and not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= MOST_UNITS):
            raise CommandError(f"--parties {name}={text[:40]}: give its number of units, such as {name}=300")
        found[name] = int(text) if text else GUESSED_UNITS
    if len(found) < 2:
        raise CommandError("--parties names fewer than two: a federation has at least two parties")
    return found, [name for name, text in parties.items() if not text]


def members(wanted: Wanted) -> tuple[Member, ...]:
    """Who takes part and where, checked as every reader of an invitation checks it."""
    names = [*wanted.servers, *wanted.parties]
    if len(set(names)) < len(names) or len(wanted.aggregators) != 2:
        raise CommandError("give two aggregators and one coordinator, and every node a name of its own")
    for option, given in (("--hosts", wanted.hosts), ("--organisation", wanted.organisations)):
        if unknown := sorted(set(given) - set(names)):
            raise CommandError(f"{option} names {unknown[0]}, who takes no part: names are {', '.join(names)}")
    addresses = _addresses(wanted)
    tables = [
        {
            "role": (role := _role(name, wanted)).value,
            "name": name,
            **({"organisation": text} if (text := _organisation(name, role, wanted)) else {}),
            **({"addresses": {kind: str(at) for kind, at in addresses[name].items()}} if name in addresses else {}),
        }
        for name in names
    ]
    return members_from([Fields(each, "members", InvitationError) for each in tables])


def _role(name: str, wanted: Wanted) -> Role:
    if name == wanted.coordinator:
        return Role.coordinator
    return Role.aggregator if name in wanted.aggregators else Role.party


def _organisation(name: str, role: Role, wanted: Wanted) -> str:
    if text := wanted.organisations.get(name, ""):
        return words(Fields({name: text}, "--organisation", InvitationError), name)
    if role is Role.party:
        return ""  # it says so itself when it joins
    if not wanted.local:
        raise CommandError(
            f'{name}: say who answers for it in law, with --organisation "{name}=…"; the two aggregators must belong '
            "to two organisations"
        )
    return f"{name} on this machine"


def _addresses(wanted: Wanted) -> dict[str, dict[str, Address]]:
    kinds = {name: list(ADDRESSES[_role(name, wanted)]) for name in wanted.servers}
    kinds[wanted.aggregators[0]].remove("peer")  # A dials B
    if wanted.local:
        ports = iter(_ports(sum(map(len, kinds.values())), wanted.port_base))
        return {name: {kind: Address("127.0.0.1", next(ports)) for kind in each} for name, each in kinds.items()}
    if missing := [name for name in wanted.servers if not wanted.hosts.get(name)]:
        example = ",".join(f"{name}={name}.example.org" for name in wanted.servers)
        raise CommandError(f"--hosts has no host of {', '.join(missing)}: give --hosts {example}, or --local")
    return {
        name: {kind: _at(wanted.hosts[name], name, kind, place) for place, kind in enumerate(each)}
        for name, each in kinds.items()
    }


def _at(host: str, name: str, kind: str, place: int) -> Address:
    """A host, or a host and the first of its ports."""
    bare, colon, first = host.rpartition(":")
    if colon and first.isdigit() and (":" not in bare or bare.endswith("]")):
        text = f"{bare}:{int(first[:6]) + place}"
    else:
        text = f"{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{USUAL_PORTS[kind]}"
    return address_of(Fields({name: text}, "--hosts", InvitationError), name)


def _ports(count: int, base: int | None) -> list[int]:
    """From a given one on, or of the kernel's choice: all held until all are known, so that they differ."""
    if base is not None:
        if base + count > LARGEST_PORT:
            raise CommandError(f"--port-base {base} leaves no {count} ports: choose a lower one")
        return list(range(base, base + count))
    with ExitStack() as held:
        found = []
        for _ in range(count):
            each = held.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            found.append(int(each.getsockname()[1]))
        return found


def study_body(wanted: Wanted, listed: Sequence[Member]) -> dict[str, Any]:
    """study.toml: what the given names, sizes and columns make of it."""
    schema_from_json(dict(wanted.columns))
    entity = {each.name: each.organisation for each in listed}
    return {
        "run": f"{wanted.federation}-1",
        "federation": wanted.federation,
        "model": {"kind": "logistic"},
        "algorithm": {"name": "auto"},
        "privacy": {"epsilon": wanted.epsilon, "delta": wanted.delta},
        "rounds": {"minimum_parties": len(wanted.parties), "deadline_seconds": 60.0},
        "schema": dict(wanted.columns),
        "parties": [
            {
                "name": name,
                "units": units,
                **({"legal_entity": entity[name]} if entity[name] else {}),
            }
            for name, units in wanted.parties.items()
        ],
        "aggregators": [{"name": name, "legal_entity": entity[name]} for name in wanted.aggregators],
        "coordinator": {"name": wanted.coordinator, "legal_entity": entity[wanted.coordinator]},
    }


def write(wanted: Wanted) -> list[Path]:
    """All files, or none if one of them is there already."""
    listed = members(wanted)
    plan = Plan(wanted.federation, listed)
    least = min(FEWEST_PARTIES, len(wanted.parties))
    texts = {
        STUDY_FILE: (
            "# The study: what people decide about a run. docs/study.md explains every key; all of it is public.\n"
            f"# No node opens a sum over fewer than {least} parties.\n\n"
            f"{toml_text(study_body(wanted, listed))}\n"
        ),
        FEDERATION_FILE: plan.text(),
        "README.md": readme(wanted),
    }
    taken = [name for name in texts if (wanted.folder / name).exists()]
    if taken:
        raise CommandError(f"{wanted.folder} has a {taken[0]} already: nothing was written, choose another folder")
    try:
        wanted.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in texts.items():
            replace_durably(wanted.folder / name, text)
    except OSError as error:
        raise CommandError(f"{wanted.folder} cannot be written ({error.strerror}): choose another folder") from None
    return [wanted.folder / name for name in texts]


def readme(wanted: Wanted) -> str:
    """The steps of every organisation with its names in them: a test types them word for word."""
    text = (files("parley.cli") / "study_readme.md").read_text(encoding="utf-8")
    servers, parties = list(reversed(wanted.aggregators)), list(wanted.parties)
    local = wanted.local
    common = {
        "FEDERATION": wanted.federation,
        "LEAD": wanted.coordinator,
        "RUN": f"{wanted.federation}-1",
        "A": wanted.aggregators[0],
        "B": wanted.aggregators[1],
        "REQUESTS": " ".join(
            f"{f'{name}/' if name == wanted.coordinator or local else ''}{name}.request"
            for name in (wanted.coordinator, *servers, *parties)
        ),
        "WHERE": "Everybody is on this one machine: type all of it in this folder. One person then holds every\n"
        "key, so this is a trial and protects nobody."
        if local
        else f"{wanted.coordinator} types its commands in this folder, and everybody else where the files from\n"
        "the mail were saved.",
    }

    def repeated(found: re.Match[str]) -> str:
        names = servers if found[1] == "servers" else parties
        return "".join(_filled(found[2], _of(name, local)) for name in names)

    text = re.sub(r"<!-- (servers|parties) -->\n(.*?)<!-- end -->\n", repeated, text, flags=re.DOTALL)
    return _filled(text, common)


def _of(name: str, local: bool) -> dict[str, str]:
    return {
        "NAME": name,
        "INVITATION": f"{'invitations/' if local else ''}{name}.invitation",
        "DATA": f"{name}.csv" if local else "records.csv",
    }


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda found: names.get(found[1], found[0]), text)
