"""A key that follows another."""

from pathlib import Path

import pytest

from parley.federation.errors import (
    NotAuthenticatedError,
    NotPinnedError,
    PinError,
)
from parley.node import trust
from parley.node.authority import ThrowAwayAuthority
from parley.node.succession import Succession
from tests.support.pinned import NORTH, PARTY, SOUTH, alone


def test_a_rotation_is_of_the_key_in_use_and_signed_by_both(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    folder, old, new = (
        alone(tmp_path / "node", issuer, PARTY),
        issuer.issue_as(SOUTH),
        issuer.twin(SOUTH),
    )
    rotation = Succession.of(old, new)
    assert Succession.parse(rotation.text().encode()) == rotation
    with pytest.raises(NotPinnedError):
        trust.accept(folder, rotation, new.pin)
    trust.add(folder, SOUTH, old.pin)
    trust.add(folder, NORTH, issuer.issue_as(NORTH).pin)
    for broken in (
        Succession(NORTH, rotation.old, rotation.new, rotation.by_old, rotation.by_new),
        Succession(SOUTH, rotation.old, rotation.new, rotation.by_new, rotation.by_old),
        Succession(SOUTH, rotation.old, rotation.new, rotation.by_old, b""),
        Succession(SOUTH, new.pin, old.pin, rotation.by_old, rotation.by_new),
    ):
        with pytest.raises(NotAuthenticatedError):
            trust.accept(folder, broken, broken.new)
    other = Succession.of(issuer.twin(SOUTH), new)
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


def test_one_rotation_after_another_and_a_lost_key_in_between(tmp_path: Path, issuer: ThrowAwayAuthority) -> None:
    """Whatever the order, the file can be read again, and no key that was given up comes back."""
    folder = alone(tmp_path / "node", issuer, PARTY)
    keys = [issuer.issue_as(SOUTH), *(issuer.twin(SOUTH) for _ in range(4))]
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
