"""Who has answered to a run that is being gathered, who has not, and until when that is waited for: public facts.

Said in the log, in a terminal, in `--json` and on the dashboard, always from the object here.
"""

import asyncio
import datetime as dt
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from parley.coordinator.run import Run
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import logs

log = logs.logger()
SAID_SECONDS = 5.0
"""After the beginning, and between two lines of the log: a run whose members are all there says nothing."""
SOON_SECONDS = 600.0
"""A moment that is nearer is told to the second."""
MOST_NAMED = 10


@dataclass(frozen=True)
class Gathering:
    """Of one run."""

    joined: int
    """Parties."""
    parties: int
    waiting: tuple[NodeName, ...]
    """Members that have not answered: the aggregators first, for without both nothing begins."""
    refused: tuple[NodeName, ...]
    """Parties that take no part."""
    until: float = 0.0
    """In seconds since the epoch; 0 where no coordinator runs that would wait."""

    def __str__(self) -> str:
        return ", ".join((f"{self.joined} of {self.parties}", *self.who()))

    def who(self) -> list[str]:
        """Who is waited for and until when, and who takes no part."""
        said = []
        if self.waiting:
            until = f" until {moment(self.until)}" if self.until else ""
            said.append(f"waiting for {named(self.waiting)}{until}")
        if self.refused:
            said.append(f"{named(self.refused)} refused")
        return said

    def as_json(self) -> dict[str, Any]:
        return {
            "joined": self.joined,
            "parties": self.parties,
            "waiting": [name.uri for name in self.waiting],
            "refused": [name.uri for name in self.refused],
            "until": iso(self.until) if self.until else None,
        }


def gathering_of(manifest: Manifest, joined: Collection[str], refused: Collection[str], until: float) -> Gathering:
    """`joined` and `refused` are the URIs of nodes of either role."""
    parties = manifest.identities(Role.party)
    members = (*manifest.identities(Role.aggregator), *parties)
    return Gathering(
        sum(name.uri in joined for name in parties),
        len(parties),
        tuple(name for name in members if name.uri not in joined and name.uri not in refused),
        tuple(name for name in parties if name.uri in refused),
        until,
    )


def by_answers(manifest: Manifest, answers: Mapping[str, tuple[str, str]], until: float) -> Gathering:
    """As the coordinator's store has them."""
    said = {word: {node for node, (answer, _) in answers.items() if answer == word} for word in ("joined", "refused")}
    return gathering_of(manifest, said["joined"], said["refused"], until)


def in_memory(run: Run) -> Gathering:
    """As the coordinator's process has it."""

    def uris(parties: Collection[str]) -> set[str]:
        return {NodeName(run.manifest.federation, Role.party, party).uri for party in parties}

    joined = run.admitted | uris(run.joined)
    return gathering_of(run.manifest, joined, uris(run.refused.keys()), run.gathering_until)


async def say_who_is_missing(run: Run) -> None:
    """A line of the log whenever that has changed, until it is cancelled."""
    said: tuple[NodeName, ...] = ()
    while True:
        await asyncio.sleep(SAID_SECONDS)
        found = in_memory(run)
        if found.waiting and found.waiting != said:
            said = found.waiting
            log.info(
                "run.waiting",
                run=run.manifest.run,
                present=found.joined,
                expected=found.parties,
                missing=[name.uri for name in found.waiting],
                until=iso(found.until),
            )


def each_named(nodes: Collection[NodeName]) -> list[str]:
    """Parties by their names alone: of them there are many."""
    return [name.name if name.role is Role.party else f"{name.role} {name.name}" for name in nodes]


def named(nodes: Collection[NodeName]) -> str:
    """In a sentence."""
    names = each_named(nodes)
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def moment(at: float) -> str:
    """On this machine's clock: the day where it is not today, the second where it is soon."""
    when, now = dt.datetime.fromtimestamp(at), dt.datetime.now()
    day = "" if when.date() == now.date() else "%Y-%m-%d "
    return when.strftime(f"{day}%H:%M:%S" if at - time.time() < SOON_SECONDS else f"{day}%H:%M")


def iso(at: float) -> str:
    """UTC, to the second."""
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
