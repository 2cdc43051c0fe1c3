"""What a node signs: one JSON document with stable names of fields, of its own books and of nothing else.

Everything that stands in any form of a report is in here, and whoever adds a field decides that the node's operator
may hand it to anybody. Numbers are as the ledger and the accountant have them; words are made of them by `document`.
"""

import base64
import datetime as dt
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.federation.people import NOBODY, Legal
from parley.node.credentials import Identity, certificate_fingerprint, load_certificate
from parley.node.endings import end_signed_by
from parley.node.evidence import EvidenceFolder
from parley.node.node_file import AnyNode
from parley.node.pins import key_text
from parley.node.software import DISTRIBUTION, software_version, source_digest
from parley.node.statements import digest_of, statement_signed_by
from parley.node.trail import Event, events_in
from parley.privacy.head import START, Head
from parley.report.facts import Dates, Facts
from parley.report.words import not_promised, plainly
from parley.v1 import common_pb2

LAYOUT = 1
"""Of what is drawn from a content. Whoever changes a word of it, or its style, counts this up."""
CHARGED = ("run.charged", "run.submitted", "run.admitted")
ENDED = ("run.settled", "run.ended", "run.finished", "run.failed", "run.refused", "run.left", "run.withdrawn")
MOST_WORD_BYTES = 1 << 14
"""Of a statement that is kept whole: one of a run of hundreds of parties is longer."""


def fingerprint(key: bytes) -> str:
    """Of a key, as evidence and reports name it."""
    return f"SHA-256:{hashlib.sha256(key).hexdigest()}"


def in_the_trail(path: Path) -> tuple[str, dict[str, Dates]]:
    """The head of a node's trail, checked from its first entry, and when runs began and ended by it."""
    head, found = START, dict[str, Dates]()
    for event in events_in(path) if path.exists() else ():
        head = Head(event.sequence, event.hash)
        if isinstance(run := event.fields.get("run"), str):
            found[run] = _dated(found.get(run, Dates()), event)
    return ("" if head == START else str(head)), found


def _dated(known: Dates, event: Event) -> Dates:
    moment = event.time[:19] + "+00:00"
    if event.event in CHARGED and (not known.charged or event.event == "run.charged"):
        return Dates(moment, known.ended)
    return Dates(known.charged, moment) if event.event in ENDED else known


def content_of(node: AnyNode, identity: Identity, facts: Facts, trail_head: str, now: dt.datetime) -> dict[str, Any]:
    """Of one run, by one node."""
    manifest, evidence = facts.manifest, _evidence(node, facts.manifest)
    return {
        "layout": LAYOUT,
        "made": now.isoformat(timespec="seconds"),
        "node": _node(identity),
        "run": _run(facts),
        "legal": {name: text or None for name, text in vars(manifest.legal or Legal()).items()},
        "guarantee": _guarantee(facts, any(each["held_against_this_run"] for each in evidence)),
        "members": list(_members(facts)),
        "left": [vars(each) for each in facts.left],
        "budgets": list(facts.budgets),
        "evidence": evidence,
        "servers": _servers(facts, identity),
        "pins": list(_pins(manifest, identity)),
        "books": {"ledger_head": facts.ledger_head or None, "trail_head": trail_head or None},
        "software": {"name": DISTRIBUTION, "version": software_version(), "source_digest": source_digest()},
        "not_promised": not_promised(manifest),
    }


def _node(identity: Identity) -> dict[str, Any]:
    return {
        "identity": identity.name.uri,
        "federation": identity.name.federation,
        "role": identity.name.role.value,
        "name": identity.name.name,
        "key_fingerprint": fingerprint(identity.pin),
        "pin": key_text(identity.pin),
        "certificate": identity.fingerprint,
        "certificate_expires": identity.expires.isoformat(timespec="seconds"),
        "authority": certificate_fingerprint(load_certificate(identity.authority, "the authority's certificate")),
    }


def _run(facts: Facts) -> dict[str, Any]:
    manifest, admission = facts.manifest, facts.admission
    return {
        "run": manifest.run,
        "state": facts.state,
        "reason": facts.reason or None,
        "withdrawn": facts.withdrawn,
        "rounds": facts.rounds,
        "rounds_planned": manifest.releases,
        "model": manifest.model.kind,
        "parameters": manifest.model.dimension,
        "algorithm": manifest.algorithm.name,
        "manifest_digest": manifest.digest.hex(),
        "mechanism_digest": manifest.mechanism.digest,
        "admitted": None
        if admission is None
        else {
            "how": admission.how,
            "by": admission.approved_by,
            "at": admission.at,
            "overridden": list(admission.overridden),
        },
    }


def _guarantee(facts: Facts, caught: bool) -> dict[str, Any] | None:
    meaning, manifest = facts.meaning, facts.manifest
    if meaning is None:
        return None
    parts, mechanism = manifest.noise.parts, manifest.mechanism
    lying = meaning.epsilon_if_a_server_lies
    return {
        "epsilon": meaning.epsilon,
        "delta": meaning.delta,
        "epsilon_if_a_server_lies": lying,
        "security": parts.security,
        "own": parts.own,
        "audit": parts.audit,
        "accountant": manifest.guarantee.accountant,
        "unit": mechanism.unit.name,
        "relation": mechanism.relation.value,
        "worst_party": meaning.worst_party,
        "a_server_was_caught": caught,
        "plainly": plainly(parts, meaning.epsilon, lying, meaning.delta, mechanism.unit.column, caught),
        "statement": meaning.statement,
    }


def _members(facts: Facts) -> Iterator[dict[str, Any]]:
    manifest, institutions = facts.manifest, dict(facts.manifest.institutions)
    operators = {operator.name: operator for operator in (*manifest.aggregators, manifest.coordinator)}
    for role in (Role.party, Role.aggregator, Role.coordinator):
        for place, name in enumerate(manifest.identities(role)):
            known, is_party = facts.present.get(name.uri), role is Role.party
            who = institutions.get(name.name, NOBODY) if is_party else operators[name.name]
            yield {
                "name": name.name,
                "role": f"aggregator {'AB'[place]}" if role is Role.aggregator else role.value,
                "legal_entity": who.legal_entity or None,
                "contact": who.contact or None,
                "units": manifest.mechanism.sampler(name.name, 0).units if is_party else None,
                "data_set": (manifest.data_set_of(name.name) or None) if is_party else None,
                "answer": (known.answer or None) if known else None,
                "reason": (known.reason or None) if known else None,
                "rounds": known.rounds if known else None,
            }


def _evidence(node: AnyNode, manifest: Manifest) -> list[dict[str, Any]]:
    """Against a server of the run, that this node keeps: verified when it came."""
    folder = EvidenceFolder(node.state)
    servers = manifest.identities(Role.aggregator)
    return [
        {
            "digest": held.digest,
            "server": held.server.uri,
            "at": held.at,
            "held_against_this_run": manifest.run in held.runs,
            "answered_by": held.answer.by if held.answer else None,
            "answered_at": held.answer.at if held.answer else None,
        }
        for held in (folder.all() if folder.path.exists() else ())
        if held.server in servers
    ]


def _servers(facts: Facts, identity: Identity) -> dict[str, Any]:
    ends = [body for end in facts.ends if (body := _end(facts.manifest, identity, end)) is not None]
    statements = [body for word in facts.statements if (body := _statement(facts.manifest, identity, word)) is not None]
    proved, seen = facts.proved, facts.seen
    return {
        "ends": ends,
        "statements": statements,
        "not_by_a_pinned_key": len(facts.ends) + len(facts.statements) - len(ends) - len(statements),
        "settled_on": None if proved is None else {"openings": proved[0], "evidence": proved[1]},
        "checked": None if seen is None else {"round": seen[0], "digests": list(seen[1])},
    }


def _end(manifest: Manifest, identity: Identity, end: common_pb2.SignedEnd) -> dict[str, Any] | None:
    """None for what is no word of this run's servers about it, by a key that is pinned here."""
    key = _key(manifest, identity, end.aggregator, lambda key: end_signed_by(key, end))
    if key is None or end.manifest_digest != manifest.digest:
        return None
    return {
        "aggregator": end.aggregator,
        "openings": end.openings,
        "signature": end.signature.hex(),
        "key": key_text(key),
    }


def _statement(manifest: Manifest, identity: Identity, word: common_pb2.SignedWord) -> dict[str, Any] | None:
    """The same of a statement; a coordinator keeps what a server hands it, whatever that is."""
    try:
        said = common_pb2.RoundStatement.FromString(word.body)
    except DecodeError:
        return None
    key = _key(manifest, identity, said.aggregator, lambda key: statement_signed_by(key, word))
    if key is None or said.manifest_digest != manifest.digest:
        return None
    data = word.SerializeToString()
    return {
        "aggregator": said.aggregator,
        "round": said.round,
        "digest": digest_of(word).hex(),
        "word": base64.b64encode(data).decode() if len(data) <= MOST_WORD_BYTES else None,
        "key": key_text(key),
    }


def _key(manifest: Manifest, identity: Identity, uri: str, signed: Callable[[bytes], bool]) -> bytes | None:
    """The key by which a word holds: one that this node has pinned for the server that is said to have signed it."""
    server = next((name for name in manifest.identities(Role.aggregator) if name.uri == uri), None)
    return None if server is None else next((key for key in identity.pins.of(server) if signed(key)), None)


def _pins(manifest: Manifest, identity: Identity) -> Iterator[dict[str, Any]]:
    for role in (Role.party, Role.aggregator, Role.coordinator):
        for name in manifest.identities(role):
            for key in identity.pins.of(name) if name != identity.name else ():
                yield {"node": name.uri, "key": key_text(key), "key_fingerprint": fingerprint(key)}
