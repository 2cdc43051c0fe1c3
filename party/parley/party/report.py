"""What a party's own books say of one run, for its signed report. No figure of its records is among it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest, of_an_earlier_version
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.federation.names import NodeName, Role
from parley.node.node_file import PartyNode
from parley.party.books import open_ledger
from parley.party.ends import kept
from parley.party.outbox import ENDED, JOINED, LEFT, REFUSED, SETTLED, VERIFYING, WAITING, Outbox, RunState
from parley.party.process import settings_of
from parley.party.settings import Settings
from parley.privacy.filters import Policy
from parley.report.errors import ReportError
from parley.report.facts import Dates, Facts, Left, Present, admission_of, budgets
from parley.report.identity import identity_of

HALF_A = "one half of each masked answer; alone it is uniformly random"
HALF_B = "the other half, as a seed of 32 bytes; alone it is uniformly random. It usually travels sealed with the first"
WORDS = "public words: whether this party takes part, and if not why; which rounds it has answered"
STATES = {
    VERIFYING: "being verified",
    WAITING: "waits for this party's operator",
    REFUSED: "refused by this party",
    JOINED: "under way",
    LEFT: "left by this party",
    ENDED: "over; its end is not proved yet, so that the whole charge stays",
    SETTLED: "over, by the signed word of both aggregators",
}


def facts_of(node: PartyNode, run: str | None, dates: Mapping[str, Dates], digest: bytes | None = None) -> Facts:
    """Of the run of that digest or name; else of the newest that this party has answered, or the newest of all."""
    settings, name = settings_of(node), identity_of(node.identity).name
    if not settings.outbox.exists():
        raise ReportError(f"{node.folder} has no runs yet: there is nothing to report")
    with closing(Outbox(settings.outbox)) as outbox:
        held = _chosen(outbox, run, digest)
        manifest = Manifest.from_canonical(held.manifest)
        sent, seen = outbox.sent(held.digest), outbox.seen(held.digest)
    admission, withdrawn = admission_of(node.admissions, manifest)
    books = _books(settings, manifest, dates, admission is not None)
    first, second, lead = (*manifest.identities(Role.aggregator), *manifest.identities(Role.coordinator))
    return Facts(
        manifest=manifest,
        meaning=_meaning(node, manifest, name, books.policy),
        state=STATES[held.state],
        reason=held.reason,
        rounds=sent.rounds,
        admission=admission,
        withdrawn=withdrawn,
        left=(
            Left(first.uri, HALF_A, sent.bytes_a, sent.rounds),
            Left(second.uri, HALF_B, sent.bytes_b, sent.rounds),
            Left(lead.uri, WORDS, None),
        ),
        present={name.uri: Present(rounds=sent.rounds)},
        budgets=books.budgets,
        ledger_head=books.head,
        ends=kept(settings.state, books.proved[1]) if books.proved is not None else (),
        proved=books.proved,
        seen=None if seen is None or seen.round < 0 else (seen.round, (seen.digests[0].hex(), seen.digests[1].hex())),
    )


@dataclass(frozen=True)
class _Books:
    """What the ledger says; nothing where there is none yet."""

    budgets: tuple[dict[str, Any], ...] = ()
    head: str = ""
    policy: Policy = field(default_factory=Policy)
    proved: tuple[int, str] | None = None


def _books(settings: Settings, manifest: Manifest, dates: Mapping[str, Dates], admitted: bool) -> _Books:
    """A run's name alone proves nothing: its end counts where this very manifest was admitted under it."""
    if not settings.ledger.exists():
        return _Books()
    with closing(open_ledger(settings)) as ledger:
        head, charged = ledger.verify(), ledger.runs.get(manifest.run)
        proved = charged.proved if charged is not None and admitted else None
        return _Books(budgets(ledger, dates), str(head), ledger.policy, proved)


def _chosen(outbox: Outbox, run: str | None, digest: bytes | None) -> RunState:
    readable = [held for held in outbox.runs() if not of_an_earlier_version(held.manifest)]
    wanted = [held for held in readable if run in (None, held.run) and digest in (None, held.digest)]
    if not wanted:
        known = ", ".join(dict.fromkeys(held.run for held in readable)) or "none"
        raise ReportError(f"no run {run!r} was proposed here: it has {known}")
    answered = [held for held in wanted if outbox.sent(held.digest).rounds]
    return (answered or wanted)[-1]


def _meaning(node: PartyNode, manifest: Manifest, name: NodeName, policy: Policy) -> Meaning | None:
    """As it was verified before the run was admitted; computed anew where that is gone."""
    try:
        return verify_apart_with_charge(manifest, name.name, policy, node.verified)[0]
    except FederationError:
        return None
