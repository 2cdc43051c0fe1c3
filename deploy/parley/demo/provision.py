"""Node folders for the demonstration's federation in containers, made by the steps that operators take by hand.

FOLDER/authority/        the certificate authority
FOLDER/study.toml        the manifest of the demonstration's run
FOLDER/NAME/             a node's folder as docs/federation.md has it, without its state

One person holds every key here, so this is a demonstration and no trust boundary: docs/containers.md has the same steps
for organisations of their own. What is there already stays; a node whose certificate is about to expire gets a new one.
"""

import datetime as dt
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.demo.heart_data import hold_out_file
from parley.demo.local import SCHEMA_FILE, policy_text, schema_text
from parley.demo.recipe import HOSPITALS
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.toml_text import toml_text
from parley.learning.holding import CSV
from parley.node import installation as nodes
from parley.node import trust
from parley.node.authority import PEM, Authority, load_request
from parley.node.credentials import CERTIFICATE_FILE, KEY_FILE, NodeFolder, load_certificate, read_file
from parley.node.data_sets import DataSet
from parley.node.node_file import (
    Address,
    AggregatorNode,
    AnyNode,
    CoordinatorNode,
    DashboardSettings,
    NoiseSettings,
    PartyNode,
)
from parley.node.node_text import node_text
from parley.node.pins import key_of, read_entries

LISTEN = {"coordinator": 7400, "share": 7401, "control": 7402, "peer": 7403, "dashboard": 7480, "metrics": 9464}
SHORTEST_LEFT = dt.timedelta(days=7)
STUDY_FILE = "study.toml"
Say = Callable[[str], None]


def provision(folder: Path, manifest: Manifest, runs: int, say: Say, owner: tuple[int, int] | None = None) -> None:
    """Everything that the compose file mounts. `runs` such runs fit every budget."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = _authority(folder / "authority", manifest.federation, say)
    study = folder / STUDY_FILE
    if not study.exists():
        study.write_text(toml_text(manifest.as_json()))
        say(f"wrote {study.name}, manifest {manifest.digest.hex()}")
    members = node_files(manifest, runs, folder)
    for name, node in members.items():
        home, role = node.folder, node.role
        home.mkdir(mode=0o700, exist_ok=True)
        _identity(home, NodeName(manifest.federation, role, name), folder / "authority", authority, say, owner)
        _write(home / "node.toml", node_text(node))
        _write(home / "policy.toml", policy_text(role, manifest, runs * manifest.guarantee.epsilon))
        _data(home / "data", role, name)
        if role is Role.party:
            _write(home / SCHEMA_FILE, schema_text(manifest, name, CSV))
        elif role is Role.coordinator:
            _write(home / SCHEMA_FILE, toml_text(CSV.as_json()) + "\n")
    _pin(folder, manifest, say)
    for node in members.values():
        if owner is not None:
            _give(node.folder, owner)


def _authority(folder: Path, federation: str, say: Say) -> Authority:
    if (folder / "authority.crt").exists():
        return Authority.load(folder, None)
    authority = Authority.create(federation)
    authority.save(folder, None)
    say(f"parley ca init {federation}    # fingerprint {authority.fingerprint}")
    return authority


def _identity(
    home: Path, name: NodeName, folder: Path, authority: Authority, say: Say, owner: tuple[int, int] | None
) -> None:
    identity = NodeFolder(home / "identity")
    if not identity.current.is_symlink():
        _certify(identity, name, folder, authority, say)
        return
    held = load_certificate(read_file(identity.current / CERTIFICATE_FILE))
    if held.not_valid_after_utc - dt.datetime.now(dt.UTC) > SHORTEST_LEFT:
        return
    # For the same key, which peers have pinned. A container may be running on that folder: the new identity is whole
    # and its user's before the link moves to it.
    fresh = NodeFolder(home / "renewal")
    shutil.rmtree(fresh.path, ignore_errors=True)
    key = serialization.load_pem_private_key(read_file(identity.current / KEY_FILE), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    nodes.request(fresh, name, key)
    _certify(fresh, name, folder, authority, say)
    if owner is not None:
        _give(fresh.path, owner)
    (fresh.path / os.readlink(fresh.current)).rename(identity.path / os.readlink(fresh.current))
    fresh.current.rename(identity.current)
    shutil.rmtree(fresh.path)


def _certify(identity: NodeFolder, name: NodeName, folder: Path, authority: Authority, say: Say) -> None:
    waiting = nodes.pending(identity) or nodes.request(identity, name)
    data = waiting.path.read_bytes()
    certificate = authority.approve(data, waiting.fingerprint)
    authority.note(folder, certificate, load_request(data)[1])
    bundle = certificate.public_bytes(PEM) + authority.certificate.public_bytes(PEM)
    nodes.install(identity, bundle, authority.fingerprint)
    say(f"parley node request {name}, ca approve, node install    # the request's fingerprint {waiting.fingerprint}")


def _pin(folder: Path, manifest: Manifest, say: Say) -> None:
    """Every node pins those that it dials or serves: here the one person reads all pins out to itself."""
    keys = {name: _key(folder / name.name / "identity") for role in Role for name in manifest.identities(role)}
    for node in keys:
        peers = {name: key for name, key in keys.items() if {node.role, name.role} != {Role.party} and name != node}
        place = NodeFolder(folder / node.name / "identity")
        if {entry.node: entry.key for entry in read_entries(place.pin_file)} != peers:
            trust.pin_all(place, peers)
            say(f"parley pin add …    # {node.name} pins {len(peers)} peers")


def _key(identity: Path) -> bytes:
    """From the certificate: the key belongs to the user of the containers."""
    held = load_certificate(read_file(NodeFolder(identity).current / CERTIFICATE_FILE))
    return key_of(held.public_key())


def node_files(manifest: Manifest, runs: int, folder: Path) -> dict[str, AnyNode]:
    """Every node's node.toml, for the networks of deploy/compose.yaml.

    A server listens by names that only one of its networks has: each port is open on the networks that need it.
    """
    metrics = Address("127.0.0.1", LISTEN["metrics"])
    names = [operator.name for operator in manifest.aggregators]
    leader = manifest.coordinator.name
    epsilon, delta = runs * manifest.guarantee.epsilon, runs * manifest.guarantee.delta
    found: dict[str, AnyNode] = {}
    for own, other, dials in ((names[0], names[1], True), (names[1], names[0], False)):
        found[own] = AggregatorNode(
            folder=folder / own,
            share=tuple(Address(f"{own}.{party}", LISTEN["share"]) for party in manifest.parties),
            control=Address(f"control.{own}", LISTEN["control"]),
            peer_name=other,
            peer_address=Address(other, LISTEN["peer"]) if dials else None,
            peer_listener=None if dials else Address(f"peer.{own}", LISTEN["peer"]),
            noise=NoiseSettings(manifest.noise.cover, manifest.noise.precision),
            metrics=metrics,
        )
    found[leader] = CoordinatorNode(
        folder=folder / leader,
        listen=tuple(Address(f"{leader}.{party}", LISTEN["coordinator"]) for party in manifest.parties),
        aggregators={name: Address(name, LISTEN["control"]) for name in names},
        evaluation=(folder / leader / "data" / "test.csv",),
        layout=folder / leader / SCHEMA_FILE,
        epsilon=epsilon,
        delta=delta,
        dashboard=DashboardSettings(Address(f"dashboard.{leader}", LISTEN["dashboard"])),
        metrics=metrics,
    )
    for party in manifest.parties:
        found[party] = PartyNode(
            folder=folder / party,
            coordinator=Address(leader, LISTEN["coordinator"]),
            coordinator_name=leader,
            aggregators={name: Address(name, LISTEN["share"]) for name in names},
            data=(
                DataSet(
                    files=(folder / party / "data" / f"{party}.csv",),
                    schema=folder / party / SCHEMA_FILE,
                    population="patients",
                ),
            ),
            epsilon=epsilon,
            delta=delta,
            metrics=metrics,
        )
    return found


def _data(folder: Path, role: Role, name: str) -> None:
    if role is Role.aggregator:
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    hospitals = {hospital.name: hospital.data_file for hospital in HOSPITALS}
    source = hold_out_file() if role is Role.coordinator else hospitals[name]
    _write(folder / source.name, source.read_text())


def _write(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text)


def _give(home: Path, owner: tuple[int, int]) -> None:
    """To the user of the containers, links themselves and not what they lead to."""
    for path in (home, *home.rglob("*")):
        os.chown(path, *owner, follow_symlinks=False)


def remove(folder: Path) -> None:
    """Keys and all; the folder itself may be a mount and stays."""
    for found in folder.iterdir():
        shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()
