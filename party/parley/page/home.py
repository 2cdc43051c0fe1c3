"""The first page: whether the node runs, its runs, budgets, evidence, peers and records."""

import time
from collections.abc import Iterator, Mapping

from parley.federation.manifest import Manifest
from parley.federation.people import Legal
from parley.node.evidence import Held
from parley.node.health import OLDEST_TURN_SECONDS, PARTY_LOCK
from parley.page import views
from parley.page.accounts import budget_view, budgets
from parley.page.folder import Folder, Snapshot, lock_is_held
from parley.party.outbox import ENDED, JOINED, LEFT, REFUSED, SETTLED, VERIFYING, WAITING, RunState, Sent

NOTHING = Sent(0, -1, 0, 0)
STATES = {
    VERIFYING: ("being verified", "live"),
    WAITING: ("waits for you", "warn"),
    JOINED: ("under way", "live"),
    REFUSED: ("refused", "bad"),
    LEFT: ("left", "warn"),
    ENDED: ("over, not settled", "warn"),
    SETTLED: ("over", "good"),
}
REFUSED_HERE = "This institution has refused it, for good."


def standing(folder: Folder, now: float | None = None) -> views.Standing:
    """Whether the node's own process runs, by its lock and by when its loop last turned."""
    path = folder.settings.state / PARTY_LOCK
    if (held := lock_is_held(path)) is True:
        return views.Standing("The node is running.", "good")
    try:
        age = (time.time() if now is None else now) - path.stat().st_mtime
    except OSError:
        return views.Standing(f"The node was never started on this folder: parley party run {folder.path}", "warn")
    if held is None and age <= OLDEST_TURN_SECONDS:
        return views.Standing(f"The node’s loop turned {age:.0f} s ago.", "good")
    said = f"its loop last turned {_age(age)} ago"
    if age <= OLDEST_TURN_SECONDS:  # another container's lock is not seen from here
        return views.Standing(f"The node seems to be stopped: no process here holds its lock; {said}.", "warn")
    return views.Standing(f"The node is not running; {said}. Others wait for it: parley party run {folder.path}", "bad")


def node_view(folder: Folder, found: Snapshot, looked: Mapping[str, tuple[str, str]]) -> views.NodeView:
    """The first page; `looked` has what came of asking the peers, by name."""
    here = standing(folder)
    heads = [head(folder, found, held, here) for held in reversed(found.states)]
    return views.NodeView(
        standing=here,
        runs=tuple(sorted(heads, key=lambda each: not each.asks_you)),
        budgets=tuple(budget_view(folder, found, body) for body in budgets(folder, found)),
        evidence=tuple(proof(folder, held) for held in found.evidence),
        peers=tuple(_peers(folder, looked)),
        records=tuple(_records(found)),
        problems=found.problems,
        folder=folder.path,
    )


def head(folder: Folder, found: Snapshot, held: RunState, here: views.Standing) -> views.RunHead:
    """One run in a list."""
    manifest, sent = folder.manifest(held), found.sent.get(held.digest, NOTHING)
    refused = held.digest in found.refused
    admitted = held.digest in found.admissions and held.digest not in found.lapsed
    asks = held.state in (WAITING, VERIFYING) and not admitted and not refused
    withdrawn = found.admissions.get(held.digest, (None, False))[1]
    state, tone = STATES.get(held.state, (held.state, ""))
    if withdrawn and held.state in (WAITING, VERIFYING, JOINED):
        state, tone = "withdrawn", "warn"
    elif refused and not admitted:
        state, tone = "refused", "bad"
    elif admitted and held.state == WAITING:
        state, tone = "approved", "live"
    legal = (manifest.legal if manifest else None) or Legal()
    return views.RunHead(
        digest=held.digest.hex(),
        name=held.run,
        state=state,
        tone=tone,
        waits=REFUSED_HERE if refused else _waits(held, manifest, sent, asks, withdrawn, here),
        asks_you=asks and manifest is not None and not manifest.expired,
        purpose=legal.purpose,
        lead=manifest.coordinator.legal_entity if manifest else "",
        at=held.at,
        answered=sent.rounds,
        rounds=manifest.releases if manifest else 0,
    )


def _waits(
    held: RunState, manifest: Manifest | None, sent: Sent, asks: bool, withdrawn: bool, here: views.Standing
) -> str:
    if manifest is None:
        return "of an earlier version of parley"
    silent = " This node is not running, and the others wait for it." if here.tone == "bad" else ""
    match held.state:
        case _ if withdrawn and held.state in (WAITING, VERIFYING, JOINED):
            return "No further round is answered."
        case _ if not asks and held.state in (WAITING, VERIFYING):
            return f"Approved here; this node takes part as soon as it has seen that.{silent}"
        case "waiting":
            return f"It waits for you: {held.reason}" if held.reason else "It waits for you."
        case "verifying":
            return "This node is computing what it costs."
        case "joined" if not sent.rounds:
            return f"This party takes part. It waits until all others have joined.{silent}"
        case "joined":
            return f"Round {sent.last_round + 1:,} was answered; it waits for the coordinator’s next question.{silent}"
        case "ended":
            return f"It waits for both aggregators’ signed word of the end: {held.reason}"
        case _:
            return held.reason


def proof(folder: Folder, held: Held) -> views.Proof:
    answer, short = held.answer, held.digest[:16]
    command = f'parley evidence answer {folder.path} {short} --by "NAME" --reason "TEXT"'
    return views.Proof(
        digest=held.digest,
        server=held.server.name,
        at=held.at,
        runs=", ".join(held.runs),
        answered=f"{answer.by}, {answer.at}: {answer.reason}" if answer else "",
        command="" if answer else command,
    )


def _peers(folder: Folder, looked: Mapping[str, tuple[str, str]]) -> Iterator[views.Peer]:
    node = folder.node
    both = [(node.coordinator_name, "coordinator", str(node.coordinator))]
    both += [(name, "aggregator", str(address)) for name, address in node.aggregators.items()]
    for name, role, address in both:
        yield views.Peer(name, role, address, *looked.get(name, ()))


def _records(found: Snapshot) -> Iterator[views.Records]:
    for each in found.data:
        yield views.Records(each["name"] or "records", each["population"], each["sealed"], each.get("age", ""))


def _age(seconds: float) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(seconds // length)) > 0:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{max(0.0, seconds):.0f} s"
