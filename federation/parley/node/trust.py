"""What operators do with pins: `parley pin`, and whoever makes a whole federation. The file is `federation.pins`'.

    add       a peer's key, as its operator reads it out; another key only where `replace` says that the old one is lost
    accept    a rotation: signed by the old key and the new one, and the new one read out by its operator besides
    remove    trust that peer no more

Every change is made under a lock and replaces the file as a whole; running nodes look at it at every call.
"""

import datetime as dt
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from parley.federation.errors import CertificateError, FederationError, NotPinnedError, PinError, RevokedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.toml_text import toml_text
from parley.node import logs
from parley.node.credentials import Identity, NodeFolder
from parley.node.node_file import AggregatorNode, AnyNode, PartyNode
from parley.node.pins import Entry, Pin, check_entries, key_text, parse_key, read_entries
from parley.node.restoration import require_confirmed
from parley.node.succession import Succession
from parley.privacy.durable import replace_durably

log = logs.logger()
OVERLAP = dt.timedelta(days=7)
"""How long the key before a rotation is still taken: the node may change over, and peers accept, in any order."""
NO_OVERLAP = dt.timedelta(0)
HEAD = "# Whose keys this node trusts. Written by `parley pin`.\n"


def add(folder: NodeFolder, node: NodeName, key: bytes, replacing: bool = False) -> Entry:
    """Pin a key that its operator has read out. Repeating it changes nothing; a key once given up is not taken."""
    _require_not_revoked(folder, node, key)
    with _changing(folder) as held:
        known = held.get(node)
        if known is None:
            held[node] = Entry(node, key)
        elif known.key != key:
            if not replacing:
                raise PinError(
                    f"{node} is pinned to another key, {key_text(known.key)}: if its operator rotated it, "
                    "`parley pin accept` the rotation; if the old key is lost or stolen, give --replace"
                )
            if key in known.given_up:
                raise PinError(f"{node} gave this key up before: have its operator make another, `parley node rotate`")
            held[node] = Entry(node, key, given_up=_given_up(known))
        return held[node]


def accept(folder: NodeFolder, succession: Succession, key: bytes, overlap: dt.timedelta = OVERLAP) -> Entry:
    """Take a rotation: by the old key's signature and by the new key as its operator reads it out, both."""
    with _changing(folder) as held:
        known = held.get(succession.node)
        if known is None:
            raise NotPinnedError(succession.node)
        succession.verify()
        _require_not_revoked(folder, succession.node, succession.old, succession.new)  # a stolen key signs, too
        _check_read_out(succession, key)
        if known.key == succession.new:
            held[known.node] = known if overlap else replace(known, former=None)
            return held[known.node]
        _check_follows(succession, known)
        former = Pin(known.key, dt.datetime.now(dt.UTC) + overlap) if overlap else None
        held[known.node] = Entry(known.node, succession.new, former, _given_up(known))
        return held[known.node]


def _require_not_revoked(folder: NodeFolder, node: NodeName, *keys: bytes) -> None:
    revoked = folder.revoked() if folder.current.is_symlink() else None
    if revoked is not None and not revoked.keys.isdisjoint(keys):
        raise RevokedError(node)


def _given_up(known: Entry) -> tuple[bytes, ...]:
    """With the keys that it has now, each once."""
    return tuple(dict.fromkeys((*known.given_up, *(pin.key for pin in known.pins))))


def _check_read_out(succession: Succession, key: bytes) -> None:
    """Whoever stole the old key can sign a rotation as well: only the operator knows which key is the new one."""
    if key != succession.new:
        raise PinError(
            f"the rotation is to another key than the one given: have {succession.node}'s operator read it again "
            "from `parley node show`; if it still differs, the file is not theirs, and their old key may be stolen"
        )


def _check_follows(succession: Succession, known: Entry) -> None:
    """From the key in use and to a new one: what was accepted once cannot be played again."""
    if known.key != succession.old:
        raise PinError(f"the rotation is not from the key that is pinned for {succession.node}: ask for the newest")
    if succession.new in known.given_up:
        raise PinError(f"{succession.node} gave the new key up before: have its operator rotate again")


def remove(folder: NodeFolder, node: NodeName) -> None:
    """Trust it no more, from the next call and the next connection on."""
    with _changing(folder) as held:
        if held.pop(node, None) is None:
            raise NotPinnedError(node)


def pin_all(folder: NodeFolder, keys: Mapping[NodeName, bytes]) -> None:
    """For whoever makes all the nodes: a demonstration, a benchmark, a test."""
    with _changing(folder) as held:
        for node, key in keys.items():
            if node not in held or held[node].key != key:
                held[node] = Entry(node, key)


def needed(node: AnyNode, federation: str) -> list[NodeName]:
    """The peers that node.toml names: without their pins the node cannot work."""
    if isinstance(node, AggregatorNode):
        return [NodeName(federation, Role.aggregator, node.peer_name)]
    found = [NodeName(federation, Role.aggregator, name) for name in node.aggregators]
    if isinstance(node, PartyNode):
        found.insert(0, NodeName(federation, Role.coordinator, node.coordinator_name))
    return found


def require(node: AnyNode) -> None:
    """Refuse to start where one of those is not pinned: every call would fail, and this says what to do.

    Nor on the pins of a backup, before somebody has compared them.
    """
    require_confirmed(node)
    identity = node.identity.load()
    missing = [name for name in needed(node, identity.name.federation) if not identity.pins.of(name)]
    if missing:
        where = f" --node {node.folder}"
        commands = ", ".join(f"`parley pin add {name} PIN{where}`" for name in missing)
        raise PinError(
            f"not pinned here: {', '.join(map(str, missing))}. Have each operator read out the pin that `parley node "
            f"show` prints there, then {commands}"
        )


def unpinned(manifest: Manifest, identity: Identity) -> list[NodeName]:
    """Members of a run whom this server is to dial or to serve, and cannot: their keys are not pinned."""
    members = {name for role in Role for name in manifest.identities(role)} - {identity.name}
    return sorted(name for name in members if not identity.pins.of(name))


def name_unpinned(manifest: Manifest, load: Callable[[], Identity]) -> None:
    """In the log, for the operator: such a member's calls end in TLS, where nothing can be said."""
    try:
        missing = unpinned(manifest, load())
    except FederationError:
        return  # said by whoever uses the identity
    for peer in missing:
        log.warning("a member of the run is not pinned here, and so not served", run=manifest.run, peer=peer)


def ask(folder: NodeFolder, given: Sequence[str], peers: Sequence[NodeName], prompt: Callable[[NodeName], str]) -> None:
    """Pins given as ROLE/NAME=PIN, then those of `peers` still missing, from `prompt`; empty leaves one for later."""
    federation = folder.load().name.federation
    for text in given:
        name, equals, key = text.rpartition("=")
        if not equals:
            raise PinError(f"--pin is {text!r}: give ROLE/NAME=PIN, the pin as `parley node show` prints it there")
        add(folder, name_of(name, federation), parse_key(key))
    for peer in peers:
        if not folder.load().pins.of(peer) and (answer := prompt(peer)).strip():
            add(folder, peer, parse_key(answer))


def name_of(text: str, federation: str) -> NodeName:
    """A node as operators write it: its whole URI, or ROLE/NAME in this node's federation."""
    return NodeName.parse(text if "://" in text else f"parley://{federation}/{text}")


@contextmanager
def _changing(folder: NodeFolder) -> Iterator[dict[NodeName, Entry]]:
    """The entries to change; what is left of them is written if it is sound."""
    folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder.path / "pins.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _give(handle, folder)
        fcntl.flock(handle, fcntl.LOCK_EX)
        held = {entry.node: entry for entry in read_entries(folder.pin_file)}
        before = dict(held)
        yield held
        if held != before:
            check_entries(list(held.values()))
            _check_own(folder, held)
            _write(folder, held.values())
    finally:
        os.close(handle)


def _check_own(folder: NodeFolder, held: Mapping[NodeName, Entry]) -> None:
    if not folder.current.is_symlink():
        return
    try:
        own = folder.load()
    except CertificateError:
        return  # what is wrong with it is said where it is used
    for entry in held.values():
        if entry.node.federation != own.name.federation:
            raise PinError(f"{entry.node} is of another federation than this node, {own.name}: correct the name")
        if entry.node != own.name and any(pin.key == own.pin for pin in entry.pins):
            raise PinError(f"this is the pin of this node itself, {own.name}: ask {entry.node}'s operator for theirs")


def _write(folder: NodeFolder, entries: Iterable[Entry]) -> None:
    body = {"pin": [_body(entry) for entry in sorted(entries, key=lambda each: each.node)]}
    text = HEAD + (toml_text(body) if body["pin"] else "") + "\n"
    replace_durably(folder.pin_file, text, lambda handle: _give(handle, folder))


def _give(handle: int, folder: NodeFolder) -> None:
    """What root writes is the node's all the same: it runs as the owner of its folder, and has to read it."""
    if os.geteuid() == 0:
        owner = folder.path.stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)


def _body(entry: Entry) -> dict[str, object]:
    body: dict[str, object] = {"node": entry.node.uri, "key": key_text(entry.key)}
    if entry.former is not None and entry.former.until is not None:
        body |= {"former": key_text(entry.former.key), "until": entry.former.until.isoformat()}
    if entry.given_up:
        body["given_up"] = [key_text(key) for key in entry.given_up]
    return body
