"""Attacks of one aggregation server on noise under audit, over two processes, gRPC and TLS.

The honest server is in this process, with its guards or without; the liar is another one. Where a lie is one that only
an audit can see, every batch is audited: what it does at the rates that runs have is counted by
`parley.attacks.covert_counts`.
"""

import atexit
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.attacks.covert_forgery import anybody
from parley.attacks.covert_lies import known
from parley.attacks.covert_server import Task
from parley.attacks.covert_trial import TwoServers
from parley.attacks.kinds import Attack, AttackError, Finding, Guard, needed
from parley.mpc.evidence import Evidence
from parley.mpc.replay import Finding as Departure
from parley.mpc.replay import first_departure

LANES = 256
SELDOM = 16
"""Audits of an honest server whose audits are not what is tried."""
TRIES = 24
"""Of a batch that must not be audited, by the honest server or the liar: all of them are once in 10^12 times."""
Attempt = Callable[[Path, tuple[Guard, ...]], Finding]


_facing: dict[int, TwoServers] = {}


def facing(here: int) -> TwoServers:
    """An honest server in this process and a liar in another: for all attacks, until `end`."""
    if here not in _facing:
        _facing[here] = TwoServers(here=here)
    return _facing[here]


@atexit.register
def end() -> None:
    while _facing:
        _facing.popitem()[1].close()


def caught(lie: str, liar: int) -> Attempt:
    """In a batch that is audited: whether the liar's key is found guilty by what the honest server has kept."""

    def attempt(folder: Path, without: tuple[Guard, ...]) -> Finding:
        servers = facing(1 - liar)
        honest = servers.session(Task(1, LANES, 1, lie, liar))[1 - liar]
        needed(honest["made"] == 1, "nothing was audited")
        verdicts = [anybody(Evidence.decode(servers.evidence(1 - liar, name))) for name in honest["evidence"]]
        convicted = sum(verdict.guilty and verdict.key == servers.keys[liar] for verdict in verdicts)
        return Finding("refused" if convicted == 1 else "succeeds", 1, convicted)

    return attempt


def refused(lie: str, liar: int, batches: int = 1) -> Attempt:
    """Whether the honest server goes on as if nothing had been said."""

    def attempt(folder: Path, without: tuple[Guard, ...]) -> Finding:
        honest = facing(1 - liar).session(Task(batches, LANES, SELDOM, lie, liar))[1 - liar]
        went_on = honest["error"] not in known(lie).refused
        return Finding("succeeds" if went_on else "refused", batches - 1, len(honest["kept"]))

    return attempt


def unused(lie: str, liar: int) -> Attempt:
    """Whether the batch is used, where nobody happens to audit it."""

    def attempt(folder: Path, without: tuple[Guard, ...]) -> Finding:
        for _ in range(TRIES):
            honest = facing(1 - liar).session(Task(1, LANES, SELDOM, lie, liar))[1 - liar]
            used = sum(honest["kept"])
            if used or honest["error"] in known(lie).refused:
                return Finding("succeeds" if used else "refused", 0, used)
        raise AttackError("every batch was audited")

    return attempt


def accuses(lie: str, changed: Callable[[Evidence], Evidence], liar: int = 1) -> Attempt:
    """The liar accuses the honest server, of a batch of its own making."""

    def attempt(folder: Path, without: tuple[Guard, ...]) -> Finding:
        servers = facing(1 - liar)
        for _ in range(4 * TRIES):  # the liar audits one in four
            accusations = servers.session(Task(2, LANES, SELDOM, lie, liar))[liar]["evidence"]
            if accusations:
                break
        needed(accusations, "the liar has audited nothing")
        evidence = changed(Evidence.decode(servers.evidence(liar, accusations[0])))
        verdict = anybody(Evidence.decode(evidence.encoded()))
        convicted = int(verdict.guilty and verdict.key == servers.keys[1 - liar])
        return Finding("succeeds" if convicted else "refused", 0, convicted)

    return attempt


def as_it_is(evidence: Evidence) -> Evidence:
    return evidence


def another_question(evidence: Evidence) -> Evidence:
    """The accuser says that it asked by another scalar: the accused's opening then reads as garbage."""
    return Evidence(evidence.record, evidence.role, evidence.signature, evidence.opening, bytes([3]) + bytes(31))


def another_frame(evidence: Evidence) -> Evidence:
    """One frame's tag is changed in what the accused has signed."""
    record, role = evidence.record, evidence.role
    tags = list(record.tags)
    tags[role] = (*tags[role][:-1], bytes(16))
    made = type(record)(record.terms, record.number, record.lanes, record.heads, record.seals, (tags[0], tags[1]))
    return Evidence(made, role, evidence.signature, evidence.opening, evidence.x)


# ------------------------------------------------------------ guards


class _Equal:
    """To whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


class _Anything:
    """In place of `hmac`: what is compared is right."""

    @staticmethod
    def compare_digest(one: object, other: object) -> bool:
        return True


def _whoever(native: Any, tables: Any, record: Any, openings: Any, accused: int) -> Departure | None:
    """Whoever departed first: it is the accused's fault."""
    found = first_departure(native, tables, record, openings, accused)
    return found and Departure(accused, found.frame)


GUARDS: tuple[Guard, ...] = (
    Guard("replay", "parley.mpc.audit:departure", lambda *anything: None),
    Guard("signed-batches", "parley.node.signatures:signed_by", lambda key, label, statement, signature: True),
    Guard("pinned-signer", "parley.mpc.covert:CovertSession._require_pinned", lambda self, key: None),
    Guard("audit-quota", "parley.mpc.covert:quota", lambda rate: 64),
    Guard("last-words", "parley.mpc.covert:hmac", _Anything),
    Guard("covert-counts", "parley.mpc.covert:check_accepted", lambda tables, lanes, accepted: None),
    Guard("accuser-first", "parley.mpc.evidence:first_departure", _whoever),
    Guard("accuser-asked", "parley.mpc.evidence:question", lambda x, point, audit: _Equal()),
)


def _audited(lie: str, liar: int, what: str, name: str = "") -> Attack:
    return Attack(f"covert-{name or lie}", f"Server {'AB'[liar]} {what}.", ("replay",), caught(lie, liar))


ATTACKS: tuple[Attack, ...] = (
    _audited("collapse", 1, "sends nothing where a one belongs, in an audited batch"),
    _audited("squeeze", 0, "shifts U - T, so that only small noise is accepted, in an audited batch"),
    _audited("leak", 0, "adds marks by which an opened sum tells the noise, in an audited batch"),
    _audited("one-bit", 1, "turns one bit of one message, in an audited batch"),
    _audited("row", 0, "changes its share of a secret row and sends only well-formed messages, in an audited batch"),
    _audited("false-bits", 1, "seals a false accept bit, in an audited batch"),
    _audited("tape", 0, "draws from another tape than it has committed to, in an audited batch"),
    _audited("tables", 1, "computes with other tables than it has named, in an audited batch"),
    _audited("hides-seed", 0, "hands over garbage in place of its seed, in an audited batch"),
    _audited("late-seed", 1, "chooses its seed after the commitment to it, in an audited batch"),
    _audited("other-delta", 0, "commits to a delta that is not its own, in an audited batch"),
    _audited("hangs-up", 1, "collapses an audited batch and is gone as soon as it knows"),
    Attack("covert-peek", "Server B speaks last in a batch that is not audited and opens another share than it sealed.",
           ("last-words",), unused("last:share", 1)),
    Attack("covert-false-audit", "Server A says that it audited a batch that it did not: it needs no witness then.",
           ("last-words",), refused("last:false", 0)),
    Attack("covert-counts", "Server A squeezes a batch that is not audited.", ("covert-counts",), unused("squeeze", 0)),
    Attack("covert-signature", "Server B signs a batch with another key, so that nothing convicts it.",
           ("signed-batches",), refused("signature:key", 1)),
    Attack("covert-stranger", "Server B signs with a key that nobody has pinned, from its first word on.",
           ("pinned-signer",), refused("stranger", 1)),
    Attack("covert-audits", "Server A audits every batch, so that no noise is ever made.", ("audit-quota",),
           refused("audits", 0, 40)),
    Attack("covert-accuser", "Server B lies in a batch, audits it, and accuses A of what A then computes.",
           ("accuser-first",), accuses("one-bit", as_it_is)),
    Attack("covert-question", "Server B accuses A of hiding its seed, by a question that B did not ask.",
           ("accuser-asked",), accuses("accuses", another_question)),
    Attack("covert-forged", "Server B accuses A by a statement that A has not signed.", ("signed-batches",),
           accuses("accuses", another_frame)),
)  # fmt: skip
