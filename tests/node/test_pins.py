"""A node's file of keys that it trusts."""

import datetime as dt
import multiprocessing
import os
from pathlib import Path

import pytest

from parley.federation.errors import (
    NotPinnedError,
    PinError,
)
from parley.federation.names import NodeName, Role
from parley.node import trust
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import NodeFolder
from parley.node.pins import Entry, Pin, Pins, anchor, check_entries, parse_key, read_pins
from tests.support.pinned import NORTH, PARTY, SOUTH, alone


def test_what_cannot_be_pinned(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", issuer, PARTY)
    trust.add(folder, SOUTH, issuer.issue_as(SOUTH).pin)
    with pytest.raises(PinError, match="pinned to one key"):
        trust.add(folder, NORTH, issuer.issue_as(SOUTH).pin)
    with pytest.raises(PinError, match="of this node itself"):
        trust.add(folder, NORTH, issuer.issue_as(PARTY).pin)
    with pytest.raises(PinError, match="another federation"):
        trust.add(folder, NodeName("other", Role.aggregator, "north"), issuer.twin(NORTH).pin)
    for text in ("", "02", "zz" * 33, "02" + "00" * 31, "05" + "11" * 32, "02" + "ff" * 32, "04" + "11" * 64):
        with pytest.raises(PinError, match="66 digits"):
            parse_key(text)
    assert list(read_pins(folder.pin_file)) == [SOUTH]


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
    tmp_path: Path, issuer: ThrowAwayAuthority, text: str
) -> None:
    folder = alone(tmp_path / "node", issuer, PARTY)
    folder.pin_file.write_text(text)
    with pytest.raises(PinError, match=r"pins\.toml"):
        folder.load()


def test_a_file_that_others_may_write_is_refused(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder = issuer.install(tmp_path / "node", PARTY)
    for mode in (0o620, 0o602, 0o666):
        os.chmod(folder.pin_file, mode)
        with pytest.raises(PinError, match="parley pin list"):
            folder.load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes in the name of others")
def test_what_root_pins_belongs_to_the_nodes_own_user(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", issuer, PARTY)
    os.chown(folder.path, 10001, 10001)
    trust.add(folder, SOUTH, issuer.issue_as(SOUTH).pin)
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


def test_several_commands_at_once_lose_nothing(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder = alone(tmp_path / "node", issuer, NORTH)
    keys = {name: issuer.issue_as(name).pin for name in (NodeName("cardio", Role.party, f"h{n}") for n in range(8))}
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(folder.path, name, key)) for name, key in keys.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {name: folder.load().pins.of(name) for name in keys} == {name: (key,) for name, key in keys.items()}
