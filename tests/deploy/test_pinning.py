"""What operators do with pins, by the commands they type; and what the file refuses."""

import datetime as dt
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from parley.federation.errors import (
    CertificateError,
    FederationError,
    NotAuthenticatedError,
    NotPinnedError,
    PinError,
)
from parley.federation.names import NodeName, Role
from parley.node import installation as nodes
from parley.node import trust
from parley.node.authority import PEM, ThrowAwayAuthority, Validity
from parley.node.credentials import NodeFolder
from parley.node.node_file import read_node
from parley.node.pins import Entry, Pin, Pins, anchor, check_entries, key_text, parse_key, read_pins
from parley.node.succession import Succession
from tests.deploy.test_commands import answer, parley

PARTY, OTHER = (NodeName("cardio", Role.party, name) for name in ("hospital-a", "hospital-b"))
LEAD, NORTH, SOUTH = (
    NodeName("cardio", Role.coordinator, "lead"),
    NodeName("cardio", Role.aggregator, "north"),
    NodeName("cardio", Role.aggregator, "south"),
)
NODE = (
    'role = "party"\ncoordinator = "lead@127.0.0.1:7400"\n[aggregators]\nnorth = "127.0.0.1:7401"\n'
    'south = "127.0.0.1:7401"\n[data]\nfiles = ["records.csv"]\nschema = "schema.toml"\npopulation = "patients"\n'
    "[budget]\nepsilon = 4.0\ndelta = 1e-4\n"
)


@pytest.fixture
def authority() -> ThrowAwayAuthority:
    return ThrowAwayAuthority("cardio")


def alone(path: Path, authority: ThrowAwayAuthority, name: NodeName) -> NodeFolder:
    """A node that has pinned nobody."""
    authority.issue_as(name).save(path / "identities" / "1")
    (path / "current").symlink_to("identities/1")
    return NodeFolder(path)


def test_a_node_from_request_to_rotation_by_its_commands(tmp_path: Path) -> None:
    ca, home = str(tmp_path / "ca"), tmp_path / "hospital-a"
    folder = str(home / "identity")
    home.mkdir()
    (home / "node.toml").write_text(NODE)
    root = answer(parley("ca", "init", "cardio", "--folder", ca, "--json"))
    asked = answer(parley("node", "request", PARTY.uri, "--folder", folder, "--json"))
    others = ThrowAwayAuthority("cardio")
    pins = {name: key_text(others.issue_as(name).pin) for name in (LEAD, NORTH, SOUTH)}

    def approve(request: dict[str, str]) -> str:
        out = str(tmp_path / "approved.pem")
        words = ("ca", "approve", request["request"], "--fingerprint", request["fingerprint"])
        answer(parley(*words, "--out", out, "--folder", ca, "--json"))
        return out

    done = parley(
        "node", "install", approve(asked), "--authority", root["fingerprint"], "--folder", folder,
        "--pin", f"coordinator/lead={pins[LEAD]}", "--pin", f"{NORTH}={pins[NORTH].upper().replace(':', ' ')}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"not pinned   {SOUTH}: parley pin add {SOUTH} PIN --folder {folder}" in done.stdout
    assert f"pin          {asked['pin']}" in done.stdout
    refused = parley("party", "run", str(home))
    assert refused.returncode == 2
    assert f"`parley pin add {SOUTH} PIN --folder {folder}`" in refused.stderr
    missing = parley("pin", "add", "aggregator/south", "--folder", folder)
    assert (missing.returncode, "give it as `parley node show` prints it there" in missing.stderr) == (2, True)
    assert answer(parley("pin", "add", "aggregator/south", pins[SOUTH], "--folder", folder, "--json"))["former"] is None
    listed = answer(parley("pin", "list", "--folder", folder, "--json"))["pins"]
    assert {each["node"]: each["pin"] for each in listed} == {name.uri: pin for name, pin in pins.items()}
    assert (home / "identity" / "pins.toml").stat().st_mode & 0o777 == 0o600
    trust.require(read_node(home))

    renewed = answer(parley("node", "renew", "--folder", folder, "--json"))
    assert (renewed["pin"], renewed["rotation"]) == (asked["pin"], None)
    answer(parley("node", "install", approve(renewed), "--folder", folder, "--json"))
    peer = alone(tmp_path / "peer", others, NORTH)
    trust.add(peer, PARTY, parse_key(asked["pin"]))
    rotated = answer(parley("node", "rotate", "--folder", folder, "--json"))
    assert rotated["pin"] != asked["pin"]
    answer(parley("node", "install", approve(rotated), "--folder", folder, "--json"))
    where = ("--folder", str(peer.path))
    wrong = parley("pin", "accept", rotated["rotation"], "--pin", asked["pin"], *where)
    assert (wrong.returncode, "their old key may be stolen" in wrong.stderr) == (2, True)
    taken = answer(parley("pin", "accept", rotated["rotation"], "--pin", rotated["pin"], *where, "--json"))
    assert (taken["pin"], taken["former"]) == (rotated["pin"], asked["pin"])
    taken = answer(parley("pin", "accept", rotated["rotation"], "--pin", rotated["pin"], "--now", *where, "--json"))
    assert (taken["pin"], taken["former"]) == (rotated["pin"], None)
    assert answer(parley("pin", "remove", "party/hospital-a", *where, "--json")) == {"removed": PARTY.uri}
    assert parley("pin", "remove", "party/hospital-a", *where).returncode == 2


def test_another_key_needs_a_rotation_or_the_word_that_the_old_one_is_lost(
    tmp_path: Path, authority: ThrowAwayAuthority
) -> None:
    folder = alone(tmp_path / "node", authority, PARTY)
    first, second = authority.issue_as(SOUTH).pin, authority.twin(SOUTH).pin
    trust.add(folder, SOUTH, first)
    trust.add(folder, SOUTH, first)
    with pytest.raises(PinError, match="--replace"):
        trust.add(folder, SOUTH, second)
    trust.add(folder, SOUTH, second, replacing=True)
    assert folder.load().pins.of(SOUTH) == (second,)
    with pytest.raises(PinError, match="gave this key up"):
        trust.add(folder, SOUTH, first, replacing=True)


def test_what_cannot_be_pinned(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", authority, PARTY)
    trust.add(folder, SOUTH, authority.issue_as(SOUTH).pin)
    with pytest.raises(PinError, match="pinned to one key"):
        trust.add(folder, NORTH, authority.issue_as(SOUTH).pin)
    with pytest.raises(PinError, match="of this node itself"):
        trust.add(folder, NORTH, authority.issue_as(PARTY).pin)
    with pytest.raises(PinError, match="another federation"):
        trust.add(folder, NodeName("other", Role.aggregator, "north"), authority.twin(NORTH).pin)
    for text in ("", "02", "zz" * 33, "02" + "00" * 31, "05" + "11" * 32, "02" + "ff" * 32, "04" + "11" * 64):
        with pytest.raises(PinError, match="66 digits"):
            parse_key(text)
    assert list(read_pins(folder.pin_file)) == [SOUTH]


def test_a_rotation_is_of_the_key_in_use_and_signed_by_both(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder, old, new = alone(tmp_path / "node", authority, PARTY), authority.issue_as(SOUTH), authority.twin(SOUTH)
    rotation = Succession.of(old, new)
    assert Succession.parse(rotation.text().encode()) == rotation
    with pytest.raises(NotPinnedError):
        trust.accept(folder, rotation, new.pin)
    trust.add(folder, SOUTH, old.pin)
    trust.add(folder, NORTH, authority.issue_as(NORTH).pin)
    for broken in (
        Succession(NORTH, rotation.old, rotation.new, rotation.by_old, rotation.by_new),
        Succession(SOUTH, rotation.old, rotation.new, rotation.by_new, rotation.by_old),
        Succession(SOUTH, rotation.old, rotation.new, rotation.by_old, b""),
        Succession(SOUTH, new.pin, old.pin, rotation.by_old, rotation.by_new),
    ):
        with pytest.raises(NotAuthenticatedError):
            trust.accept(folder, broken, broken.new)
    other = Succession.of(authority.twin(SOUTH), new)
    with pytest.raises(PinError, match="not from the key that is pinned"):
        trust.accept(folder, other, new.pin)
    assert folder.load().pins.of(SOUTH) == (old.pin,)
    trust.accept(folder, rotation, new.pin)
    assert folder.load().pins.of(SOUTH) == (new.pin, old.pin)
    back = Succession.of(new, old)
    with pytest.raises(PinError, match="gave the new key up"):
        trust.accept(folder, back, old.pin)
    for text in (b"", b"[]", b"{}", b"nonsense", b"[" * 5000, rotation.text().encode() + b" " * 9000):
        with pytest.raises(PinError):
            Succession.parse(text)


def test_one_rotation_after_another_and_a_lost_key_in_between(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    """Whatever the order, the file can be read again, and no key that was given up comes back."""
    folder = alone(tmp_path / "node", authority, PARTY)
    keys = [authority.issue_as(SOUTH), *(authority.twin(SOUTH) for _ in range(4))]
    trust.add(folder, SOUTH, keys[0].pin)
    trust.accept(folder, Succession.of(keys[0], keys[1]), keys[1].pin)
    trust.accept(folder, Succession.of(keys[1], keys[2]), keys[2].pin)
    assert folder.load().pins.of(SOUTH) == (keys[2].pin, keys[1].pin)
    trust.add(folder, SOUTH, keys[3].pin, replacing=True)
    assert folder.load().pins.of(SOUTH) == (keys[3].pin,)
    trust.accept(folder, Succession.of(keys[3], keys[4]), keys[4].pin, trust.NO_OVERLAP)
    assert folder.load().pins.of(SOUTH) == (keys[4].pin,)
    for old in keys[:4]:
        with pytest.raises(PinError, match="before"):
            trust.add(folder, SOUTH, old.pin, replacing=True)
        with pytest.raises(PinError, match="before"):
            trust.accept(folder, Succession.of(keys[4], old), old.pin)


def test_a_former_key_is_taken_for_seven_days_and_no_longer() -> None:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    keys = [ThrowAwayAuthority("cardio").issue_as(SOUTH).pin for _ in range(2)]
    running = Pins({SOUTH: (Pin(keys[0]), Pin(keys[1], now + day))})
    over = Pins({SOUTH: (Pin(keys[0]), Pin(keys[1], now - day))})
    assert running.of(SOUTH) == tuple(keys)
    assert over.of(SOUTH) == (keys[0],)
    assert running.anchors(SOUTH).count(b"BEGIN") == 2
    assert over.anchors(SOUTH) == anchor(SOUTH, Pin(keys[0]))
    with pytest.raises(NotPinnedError, match="parley pin add parley://cardio/aggregator/north PIN"):
        over.require(NORTH)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[pin]\n",
        "[[pin]]\n",
        '[[pin]]\nnode = "north"\nkey = "02"\n',
        '[[pin]]\nnode = "parley://cardio/aggregator/north"\nkey = "02"\n',
        "other = 1\n",
    ],
)
def test_a_file_that_is_not_what_the_commands_write_is_refused(
    tmp_path: Path, authority: ThrowAwayAuthority, text: str
) -> None:
    folder = alone(tmp_path / "node", authority, PARTY)
    folder.pin_file.write_text(text)
    with pytest.raises(PinError, match=r"pins\.toml"):
        folder.load()


def test_a_file_that_others_may_write_is_refused(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder = authority.install(tmp_path / "node", PARTY)
    for mode in (0o620, 0o602, 0o666):
        os.chmod(folder.pin_file, mode)
        with pytest.raises(PinError, match="parley pin list"):
            folder.load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes in the name of others")
def test_what_root_pins_belongs_to_the_nodes_own_user(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", authority, PARTY)
    os.chown(folder.path, 10001, 10001)
    trust.add(folder, SOUTH, authority.issue_as(SOUTH).pin)
    for name in ("pins.toml", "pins.lock"):
        status = (folder.path / name).stat()
        assert (status.st_uid, status.st_mode & 0o777) == (10001, 0o600)


def test_a_key_is_one_nodes() -> None:
    key = ThrowAwayAuthority("cardio").issue_as(SOUTH).pin
    with pytest.raises(PinError, match="one key"):
        check_entries([Entry(SOUTH, key), Entry(NORTH, key)])
    with pytest.raises(PinError, match="twice"):
        check_entries([Entry(SOUTH, key), Entry(SOUTH, key)])


def _add(path: Path, name: NodeName, key: bytes) -> None:
    trust.add(NodeFolder(path), name, key)


def test_installing_asks_for_the_peers_that_are_not_pinned_yet(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder, asked = alone(tmp_path / "node", authority, PARTY), list[NodeName]()
    answers = {SOUTH: key_text(authority.issue_as(SOUTH).pin), LEAD: ""}

    def prompt(peer: NodeName) -> str:
        asked.append(peer)
        return answers[peer]

    trust.ask(folder, [f"aggregator/north={key_text(authority.issue_as(NORTH).pin)}"], [LEAD, NORTH, SOUTH], prompt)
    assert asked == [LEAD, SOUTH]
    assert sorted(folder.load().pins) == [NORTH, SOUTH, PARTY]
    for given in ("aggregator/north", "north=02", f"cook/north={answers[SOUTH]}"):
        with pytest.raises(FederationError):
            trust.ask(folder, [given], [], prompt)


def test_several_commands_at_once_lose_nothing(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", authority, NORTH)
    keys = {name: authority.issue_as(name).pin for name in (NodeName("cardio", Role.party, f"h{n}") for n in range(8))}
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(folder.path, name, key)) for name, key in keys.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {name: folder.load().pins.of(name) for name in keys} == {name: (key,) for name, key in keys.items()}


def test_an_existing_node_starts_only_once_its_peers_are_pinned(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    """Today's folders have keys and certificates; what they lack is said, with the commands."""
    home = tmp_path / "hospital-a"
    folder = alone(home / "identity", authority, PARTY)
    (home / "node.toml").write_text(NODE)
    with pytest.raises(PinError) as refused:
        trust.require(read_node(home))
    for peer in (LEAD, NORTH, SOUTH):
        assert f"parley pin add {peer} PIN --folder {folder.path}" in str(refused.value)
        trust.add(folder, peer, authority.issue_as(peer).pin)
    trust.require(read_node(home))


def test_a_renewal_keeps_the_pin_and_a_rotation_does_not(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder = authority.install(tmp_path / "node", SOUTH)
    before = folder.load().pin

    def installed(waiting: nodes.Pending) -> bytes:
        certificate = authority.authority.approve(waiting.path.read_bytes(), waiting.fingerprint)
        bundle = certificate.public_bytes(PEM) + authority.authority.certificate.public_bytes(PEM)
        return nodes.install(folder, bundle, None).pin

    assert installed(nodes.renew(folder)) == before
    waiting = nodes.rotate(folder)
    rotation = Succession.parse(waiting.rotation.read_bytes())
    rotation.verify()
    assert (rotation.node, rotation.old, rotation.new) == (SOUTH, before, waiting.pin)
    assert installed(waiting) == waiting.pin != before


def test_the_commands_show_a_key_in_groups_that_can_be_read_out(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", authority, SOUTH)
    shown = answer(parley("node", "show", "--folder", str(folder.path), "--json"))
    assert shown["pin"] == key_text(folder.load().pin)
    assert parse_key(shown["pin"]) == folder.load().pin
    assert [len(group) for group in shown["pin"].split(":")] == [2, *[4] * 16]
    assert json.dumps(shown)


def test_an_expired_enrolment_stops_a_node_whatever_its_pin(tmp_path: Path, authority: ThrowAwayAuthority) -> None:
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    folder = authority.install(tmp_path / "node", SOUTH, Validity(now - 2 * day, now - day))
    with pytest.raises(CertificateError, match="expired"):
        folder.load()
