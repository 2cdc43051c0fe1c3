"""The trees in C, every build that this machine runs, against the plain ones."""

from dataclasses import dataclass

import numpy as np
import pytest

from parley.mpc import seed_trees
from parley.mpc.errors import ConfigurationError, PeerCheatedError
from parley.mpc.kernels import Bytes
from parley.mpc.processor import Build
from parley.mpc.randomness import Csprng
from tests.support import plain_trees

SESSION = b"session of trees"
KS = [1, 2, 4]
SIZES = [16, 32, 64]
"""Of a session's id."""


@pytest.fixture(params=seed_trees.builds())
def build(request: pytest.FixtureRequest) -> Build:
    found: Build = request.param
    return found


@dataclass
class Ends:
    """What both servers hold of the base transfers, and the owner's roots."""

    k: int
    roots: Bytes
    pads: Bytes
    choices: Bytes
    chosen: Bytes


def ends(k: int, seed: int = 0) -> Ends:
    rng = Csprng(bytes([k, seed]) * 16)
    pads, choices = rng.octets(128, 2, 16), rng.bits(128)
    return Ends(k, rng.octets(128 // k, 16), pads, choices, pads[np.arange(128), choices])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", KS)
def test_a_grown_tree_is_the_plain_one(build: Build, k: int, size: int) -> None:
    these, session = ends(k), bytes(range(size))
    keys, message = seed_trees.grow(session, k, these.roots, these.pads, build)
    for tree in range(128 // k):
        pads = [[bytes(pad) for pad in pair] for pair in these.pads[k * tree : k * (tree + 1)]]
        expected, said = plain_trees.grow(session, tree, k, these.roots[tree].tobytes(), pads)
        assert keys[tree].tobytes() == b"".join(expected)
        assert message[tree].tobytes() == said


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", KS)
def test_a_punctured_tree_is_the_plain_one(build: Build, k: int, size: int) -> None:
    """Every choice at every level is in some tree: 128 choices, 4 levels."""
    these, session = ends(k), bytes(range(size))
    owned, message = seed_trees.grow(session, k, these.roots, these.pads, build)
    missing, keys = seed_trees.puncture(session, k, message, these.choices, these.chosen, build)
    for tree in range(128 // k):
        own = slice(k * tree, k * (tree + 1))
        pads = [bytes(pad) for pad in these.chosen[own]]
        place, known, holds = plain_trees.puncture(
            session, tree, k, message[tree].tobytes(), these.choices[own].tolist(), pads
        )
        assert holds
        assert missing[tree] == place
        for x in range(1 << k):
            due = owned[tree, x ^ place].tobytes() if x else bytes(16)
            assert keys[tree, x].tobytes() == (known[x ^ place] or bytes(16)) == due


@pytest.mark.parametrize("k", KS)
def test_every_path_to_a_missing_leaf_is_walked(build: Build, k: int) -> None:
    """All trees alike, for each of the 2^k paths."""
    these = ends(k)
    for path in range(1 << k):
        sides = [path >> level & 1 for level in range(k)]
        choices = np.array(sides * (128 // k), np.uint8)
        owned, message = seed_trees.grow(SESSION, k, these.roots, these.pads, build)
        missing, keys = seed_trees.puncture(SESSION, k, message, choices, these.pads[np.arange(128), choices], build)
        due = int("".join(str(1 - side) for side in sides), 2)
        assert (missing == due).all()
        assert (keys[:, 0] == 0).all()
        assert (keys[:, 1:] == owned[:, np.arange(1, 1 << k) ^ due]).all()


@pytest.mark.parametrize("k", KS)
def test_any_wrong_bit_of_a_message_that_is_used_is_caught(build: Build, k: int) -> None:
    """Of the two sums of a level only the one that the choice opens is used."""
    these = ends(k, 1)
    _, message = seed_trees.grow(SESSION, k, these.roots, these.pads, build)
    size = seed_trees.message_bytes(k)
    for tree in (0, 128 // k - 1):
        for place in range(size):
            bad = message.copy()
            bad[tree, place] ^= 1 << place % 8
            level, side = divmod(place // 16, 2)
            if level < k and side != these.choices[k * tree + level]:
                seed_trees.puncture(SESSION, k, bad, these.choices, these.chosen, build)
                continue
            with pytest.raises(PeerCheatedError, match="not consistent"):
                seed_trees.puncture(SESSION, k, bad, these.choices, these.chosen, build)


def test_trees_are_bound_to_their_session_and_their_places(build: Build) -> None:
    these = ends(4)
    _, message = seed_trees.grow(SESSION, 4, these.roots, these.pads, build)
    with pytest.raises(PeerCheatedError):
        seed_trees.puncture(b"another session.", 4, message, these.choices, these.chosen, build)
    moved = Ends(4, *(np.roll(each, by, axis=0) for each, by in (
        (these.roots, 1), (these.pads, 4), (these.choices, 4), (these.chosen, 4)
    )))  # fmt: skip
    with pytest.raises(PeerCheatedError):
        seed_trees.puncture(SESSION, 4, np.roll(message, 1, axis=0), moved.choices, moved.chosen, build)


def test_what_the_loops_assume_is_checked_before_they_run(build: Build) -> None:
    these = ends(4)
    _, message = seed_trees.grow(SESSION, 4, these.roots, these.pads, build)
    with pytest.raises(ValueError, match="roots"):
        seed_trees.grow(SESSION, 4, these.roots[:-1], these.pads, build)
    with pytest.raises(ValueError, match="64 bytes at most"):
        seed_trees.grow(bytes(65), 4, these.roots, these.pads, build)
    with pytest.raises(ValueError, match="message"):
        seed_trees.puncture(SESSION, 4, message[:, :-1], these.choices, these.chosen, build)
    with pytest.raises(ValueError, match="0 or 1"):
        seed_trees.puncture(SESSION, 4, message, these.choices * 2, these.chosen, build)


def test_a_build_that_this_machine_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    these = ends(4)
    monkeypatch.setattr(seed_trees, "_library", lambda build: None)
    with pytest.raises(ValueError, match="no build avx2"):
        seed_trees.grow(SESSION, 4, these.roots, these.pads, "avx2")
    with pytest.raises(ConfigurationError, match=r"the compiled kernels that make noise are missing \(.*\): "):
        seed_trees._fastest.__wrapped__()
