"""Who vouches for keys (H6): the authority issues what it likes, to the coordinator, to a server, to a pinned party.

Real nodes' folders and real TLS on loopback: an attacker answers where a node is dialled, or dials where it serves.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from parley.attacks.kinds import Attack, Finding, Guard, needed
from parley.coordinator.controls import Control
from parley.coordinator.errors import CoordinatorError
from parley.federation.errors import FederationError, PinError
from parley.federation.names import NodeName, Role
from parley.node import authorization, pins, signatures, transport, trust
from parley.node.authority import ThrowAwayAuthority
from parley.node.authorization import Authorization, Authorizer
from parley.node.credentials import Identity, NodeFolder, name_in
from parley.node.succession import Succession
from parley.node.transport import RenewedChannel, channel_options, server_credentials
from parley.party.wire import Wire

FEDERATION = "attacked"
PARTY, OTHER = (NodeName(FEDERATION, Role.party, name) for name in ("hospital-a", "hospital-b"))
NORTH, SOUTH = (NodeName(FEDERATION, Role.aggregator, name) for name in ("north", "south"))
LEAD = NodeName(FEDERATION, Role.coordinator, "lead")
NODES = (LEAD, NORTH, SOUTH, PARTY, OTHER)
DIALLED = ((PARTY, LEAD), (PARTY, NORTH), (PARTY, SOUTH), (LEAD, NORTH), (LEAD, SOUTH), (NORTH, SOUTH))
CALLERS = ((PARTY, NORTH), (PARTY, LEAD), (LEAD, NORTH), (NORTH, SOUTH))
METHOD = "/attacked.Service/Say"
SECRET = b"a party's half"
SECONDS = 60.0


class Federation:
    """Five nodes that have pinned each other, and the authority in the attacker's hands."""

    def __init__(self, folder: Path) -> None:
        self.authority = ThrowAwayAuthority(FEDERATION)
        for name in NODES:
            self.authority.replace_key(name)
        self.folders = {name: self.authority.install(folder / f"{name.role}-{name.name}", name) for name in NODES}

    def identity(self, name: NodeName) -> Identity:
        return self.folders[name].load()


class _Ear(grpc.GenericRpcHandler):
    """Hears whatever is said to it, by any method."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def service(self, details: Any) -> Any:
        def listen(request: bytes, context: Any) -> bytes:
            self.heard.append(request)
            return b""

        return grpc.unary_unary_rpc_method_handler(listen)


@contextmanager
def _listening(credentials: grpc.ServerCredentials, *interceptors: Any) -> Iterator[tuple[int, _Ear]]:
    ear = _Ear()
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[ear], interceptors=[*interceptors])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port, ear
    finally:
        server.stop(0).wait()


def _named_by(key: Identity, name: NodeName) -> bytes:
    """A certificate that the holder of one key makes for another's name, as its pin would have it issued."""
    return pins.presented(key.private, name)


# ------------------------------------------------------------ who is dialled


def _dials(federation: Federation, dialler: NodeName, peer: NodeName, port: int) -> None:
    """As that role of the product dials; what a failure says is of no interest here."""
    folder, address = federation.folders[dialler], f"127.0.0.1:{port}"
    try:
        if dialler.role is Role.party:
            wire = Wire(folder, {peer: address})
            try:
                _say(wire._channels[peer])
            finally:
                wire.close()
        elif dialler.role is Role.coordinator:
            asyncio.run(_controls(folder, peer, address))
        else:
            channel = RenewedChannel(address, folder, peer)
            try:
                _say(channel())
            finally:
                channel.close()
    except (grpc.RpcError, FederationError, CoordinatorError):
        pass


def _say(channel: Any) -> None:
    channel.unary_unary(METHOD)(SECRET, timeout=SECONDS)


async def _controls(folder: NodeFolder, peer: NodeName, address: str) -> None:
    control = Control(folder, peer, address)
    try:
        await control._stub()
        assert control._channel is not None
        made: Any = control._channel.unary_unary(METHOD)
        await made(SECRET, timeout=SECONDS)
    finally:
        await control.close()


def impersonate_servers(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """On every edge, in the place of who is dialled: the authority's twin, and another server of the federation."""
    federation = Federation(folder)
    heard: list[str] = []
    for dialler, peer in DIALLED:
        twin = federation.authority.twin(peer)
        other = federation.identity(NORTH if peer != NORTH else SOUTH)
        # The other server's key under the peer's name: certified by the authority for it, and by its own key.
        certified = federation.authority.authority.sign(
            other.private.public_key(), peer, federation.authority.lasting()
        ).public_bytes(pins.PEM)
        shown = [
            (twin.key, twin.certificate),
            (twin.key, twin.presented),
            (other.key, certified),
            (other.key, _named_by(other, peer) + certified),
        ]
        for key, certificate in shown:
            with _listening(grpc.ssl_server_credentials([(key, certificate)])) as (port, ear):
                _dials(federation, dialler, peer, port)
                heard += [f"{dialler.name} to {peer.name}"] * (SECRET in ear.heard)
    return _finding(heard, "no word to who has not the pinned key")


def _trusting_the_authority(identity: Identity, peer: NodeName) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(identity.authority, identity.key, identity.presented)


# ------------------------------------------------------------ who dials


def impersonate_callers(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """As every role: the authority's twin by itself, and with the key of a pinned party that colludes."""
    federation = Federation(folder)
    colluder = federation.identity(OTHER)
    heard: list[str] = []
    for victim, server in CALLERS:
        twin = federation.authority.twin(victim)
        enrolled = federation.authority.authority.sign(
            colluder.private.public_key(), victim, federation.authority.lasting()
        ).public_bytes(pins.PEM)
        shown = [
            (twin.key, twin.certificate),
            (twin.key, twin.presented),
            (colluder.key, enrolled),
            # TLS takes these: the key is pinned. Whose it is, is for `authorization` to say.
            (colluder.key, _named_by(colluder, victim) + enrolled),
            (colluder.key, _unhosted(colluder, victim) + enrolled),
        ]
        interceptor = Authorization(Authorizer({METHOD: {victim}}, federation.folders[server]))
        with _listening(server_credentials(federation.folders[server]), interceptor) as (port, ear):
            for key, certificate in shown:
                ear.heard.clear()
                _speaks(federation, server, port, key, certificate)
                heard += [f"{victim.name} at {server.name}"] * (SECRET in ear.heard)
            ear.heard.clear()
            mine = federation.identity(victim)
            _speaks(federation, server, port, mine.key, mine.presented)
            needed(SECRET in ear.heard, "the victim itself is not served")
    return _finding(heard, "no call by who has not the pinned key")


def _unhosted(key: Identity, name: NodeName) -> bytes:
    """The same without a host name, which is all that the pin's own constraint in TLS looks at."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    certificate = x509.load_pem_x509_certificate(_named_by(key, name))
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(key.private.public_key())
        .serial_number(certificate.serial_number)
        .not_valid_before(certificate.not_valid_before_utc)
        .not_valid_after(certificate.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name.uri)]), critical=False)
    )
    return builder.sign(key.private, hashes.SHA256()).public_bytes(pins.PEM)


def _speaks(federation: Federation, server: NodeName, port: int, key: bytes, certificate: bytes) -> None:
    credentials = grpc.ssl_channel_credentials(federation.authority.pins.anchors(server), key, certificate)
    channel: Any = grpc.secure_channel(f"127.0.0.1:{port}", credentials, channel_options(server))
    try:
        _say(channel)
    except grpc.RpcError:
        pass
    finally:
        channel.close()


def _by_name_alone(context: Any, identity: Identity | None = None) -> NodeName:
    """As before keys were pinned: TLS has checked the chain, the certificate names the caller."""
    known = authorization._caller.get()
    if known is not None and known[0] is context:
        return known[1]
    from cryptography import x509

    return name_in(x509.load_pem_x509_certificate(context.auth_context()["x509_pem_cert"][0]))


# ------------------------------------------------------------ what is signed


def forge_a_word(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Each node's word by the authority's twin of it, and by another node: ends and receipts are such words."""
    federation = Federation(folder)
    taken: list[str] = []
    for relying in NODES:
        trusted = federation.identity(relying).pins
        for victim in NODES:
            if victim == relying:
                continue
            other = federation.identity(next(name for name in NODES if name not in (victim, relying)))
            for forger in (federation.authority.twin(victim), other):
                word = signatures.sign(forger, "end 1", SECRET)
                try:
                    signatures.verify(trusted, victim, "end 1", SECRET, word)
                except FederationError:
                    continue
                taken.append(f"{victim.name} to {relying.name}")
            word = signatures.sign(federation.identity(victim), "end 1", SECRET)
            signatures.verify(trusted, victim, "end 1", SECRET, word)
    return _finding(taken, "no word but by the pinned key")


# ------------------------------------------------------------ rotations


def _pinned_after(folder: Path, follow: Callable[[Federation, NodeFolder, Identity, Identity], None]) -> Finding:
    """Whether an attacker's key is pinned for south at a party, once its operator has been given a rotation to it."""
    federation = Federation(folder)
    place, south, thief = federation.folders[PARTY], federation.identity(SOUTH), federation.authority.twin(SOUTH)
    with suppress(FederationError):  # refused, in words
        follow(federation, place, south, thief)
    pinned = thief.pin in place.load().pins.of(SOUTH)
    return _finding(["south at hospital-a"] * pinned, "the operator's key")


def rotate_unsigned(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Not signed by the old key: even an operator who was told the attacker's pin does not follow."""

    def follow(federation: Federation, place: NodeFolder, south: Identity, thief: Identity) -> None:
        forged = replace(Succession.of(thief, thief), old=south.pin)
        trust.accept(place, forged, thief.pin)

    return _pinned_after(folder, follow)


def rotate_by_a_thief(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Signed with the stolen old key: not what the operator reads out, and by itself nothing follows from it."""

    def follow(federation: Federation, place: NodeFolder, south: Identity, thief: Identity) -> None:
        read_out = federation.authority.twin(SOUTH).pin  # the true node's next key
        trust.accept(place, Succession.of(south, thief), read_out)

    return _pinned_after(folder, follow)


def rotate_again(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """The rotation to a key that was given up since, because it was stolen, is sent again."""

    def follow(federation: Federation, place: NodeFolder, south: Identity, thief: Identity) -> None:
        stolen, after = Succession.of(south, thief), Succession.of(thief, federation.authority.twin(SOUTH))
        trust.accept(place, stolen, thief.pin, trust.NO_OVERLAP)
        trust.accept(place, after, after.new, trust.NO_OVERLAP)
        if thief.pin in place.load().pins.of(SOUTH):
            raise PinError("the key that was given up is still taken")
        trust.accept(place, stolen, thief.pin)

    return _pinned_after(folder, follow)


def _finding(gained: list[str], bound: str) -> Finding:
    measured = f"{len(gained)}: {', '.join(sorted(set(gained)))}" if gained else "nothing"
    return Finding("succeeds" if gained else "refused", bound, measured)


GUARDS = (
    Guard("pin-is-the-root", f"{transport.__name__}:channel_credentials", _trusting_the_authority),
    Guard("caller-has-the-pinned-key", f"{authorization.__name__}:peer_of", _by_name_alone),
    Guard("word-by-the-pinned-key", f"{signatures.__name__}:verify", lambda *_: None),
    Guard("rotation-signed-by-both", "parley.node.succession:Succession.verify", lambda _: None),
    Guard("rotation-read-out", f"{trust.__name__}:_check_read_out", lambda *_: None),
    Guard("rotation-from-the-key-in-use", f"{trust.__name__}:_check_follows", lambda *_: None),
)

ATTACKS = (
    Attack(
        "H6",
        "The authority's twin of a server, or the other server, answers at its address to get what is sent there.",
        ("pin-is-the-root",),
        impersonate_servers,
    ),
    Attack(
        "H6-callers",
        "The authority, with a pinned party that colludes, calls as each of the other nodes.",
        ("caller-has-the-pinned-key",),
        impersonate_callers,
    ),
    Attack(
        "H6-words",
        "The authority's twin of a node, or another node, signs its word, such as the end that gives budget back.",
        ("word-by-the-pinned-key",),
        forge_a_word,
    ),
    Attack(
        "rotation-unsigned",
        "Somebody without a server's key has a party's operator accept a rotation to another key.",
        ("rotation-signed-by-both",),
        rotate_unsigned,
    ),
    Attack(
        "rotation-stolen",
        "Whoever stole a server's key signs a rotation to a key of their own.",
        ("rotation-read-out",),
        rotate_by_a_thief,
    ),
    Attack(
        "rotation-replayed",
        "A rotation to a key that was given up since is sent again.",
        ("rotation-from-the-key-in-use",),
        rotate_again,
    ),
)
