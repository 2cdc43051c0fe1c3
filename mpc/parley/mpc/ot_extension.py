"""Oblivious-transfer extension: SoftSpoken (Roy 2022), with the checks that catch a cheating receiver.

128 base transfers become as many as a session needs, at 128/k - 1 bits of traffic each. k = 4 by default (31 bits);
k = 1 is the protocol of Ishai, Kilian, Nissim and Petrank (127 bits) with Roy's consistency check.

Set-up, per tree t of 128/k: the receiver of transfers owns a GGM tree of 2^k leaves; by k base transfers the sender
learns all leaves but number delta_t (parley.mpc.seed_trees). Extension: with PRG(leaf x) as columns, u_t = XOR of
all, v_tb = XOR of those with bit b of x set; the sender, relabelling leaves by x ^ delta_t, gets v_tb ^ delta_tb u_t
without the missing leaf. The receiver's choices are u_0, and it sends C_t = u_t ^ u_0. A wrong C_t would tie the
sender's rows to guesses of delta: so the sender then names random challenges chi_i in GF(2^128), one for each block
of 128 transfers, and the receiver answers with sum chi_i u_i and a digest of the 128 columns' sums; columns, not
rows, are hashed (Roy's section 5: the row form's proof had a gap). The last block, its challenge 1, is never used for
anything else and hides the sums.
"""

import hashlib

import numpy as np

from parley.mpc import seed_trees
from parley.mpc.base_ot import BaseTransfers
from parley.mpc.errors import ConfigurationError, PeerCheatedError
from parley.mpc.kernels import CHUNK, CHUNK_BYTES, Bytes, Kernels
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Steps
from parley.mpc.transfers import Room, Transfers, check_budget

BLOCK = 128
"""Transfers to a challenge."""
CHALLENGES = CHUNK // BLOCK
ONE = np.frombuffer((1).to_bytes(16, "little"), np.uint8)
UNPADDED: Bytes = np.zeros((BLOCK, 2, seed_trees.SEED_BYTES), np.uint8)


def delta_bits(choices: Bytes, k: int) -> Bytes:
    """The delta that a sender gets from its choices of base transfers: each tree's path turns away from them."""
    away = 1 - choices.reshape(-1, k)
    return np.ascontiguousarray(away[:, ::-1]).reshape(-1)


class ObliviousTransfers:
    """A session's source of transfers. Never stored and never resumed: a new session makes new base transfers."""

    def __init__(
        self, kernels: Kernels, role: int, session: bytes, hash_key: Bytes, base: BaseTransfers, rng: Csprng,
        k: int = 4, room: Room | None = None,
    ) -> None:  # fmt: skip
        """With `room`, transfers lie there, and last until others are made in it."""
        if k not in (1, 2, 4):
            raise ConfigurationError(f"OT extension with k = {k}: use 1, 2 or 4")
        self._kernels, self._role, self._session, self._rng, self._k = kernels, role, session, rng, k
        self._hash_key = kernels.expand_keys(hash_key.reshape(1, 16))[0]
        self._base, self._room = base, room
        self._chunks = 0
        self._owned = np.empty((0,), np.uint8)
        self._punctured = np.empty((0,), np.uint8)
        self._delta_bits = np.empty((0,), np.uint8)

    def set_up(self) -> Steps[None]:
        """Exchange the trees: one exchange."""
        k, base = self._k, self._base
        roots = self._rng.octets(BLOCK // k, seed_trees.SEED_BYTES)
        owned, message = seed_trees.grow(self._session, k, roots, base.sent)
        (answer,) = yield [message.reshape(-1)]
        missing, punctured = seed_trees.puncture(
            self._session, k, answer.reshape(message.shape), base.choices, base.received
        )
        self._owned = self._schedule(owned)
        self._punctured = self._schedule(punctured)
        self._delta_bits = np.unpackbits(missing[:, None], axis=1, count=k, bitorder="little").reshape(BLOCK)
        self._base = BaseTransfers(*(np.empty(0, np.uint8),) * 3)

    @property
    def owned(self) -> Bytes:
        """uint8[trees, 2^k, 176]: all leaves of this server's own trees, as key schedules."""
        return self._owned

    def grow_again(self) -> None:
        """Own trees, as `set_up` grew them from this randomness: for a replay, which sends no message."""
        roots = self._rng.octets(BLOCK // self._k, seed_trees.SEED_BYTES)
        keys, _ = seed_trees.grow(self._session, self._k, roots, UNPADDED)
        self._owned = self._schedule(keys)

    def learn(self, delta: Bytes, leaves: Bytes) -> None:
        """The other server's leaves, as `set_up` leaves them to one with this delta: leaf x ^ (the missing one) at x,
        and nothing at 0. For a replay.
        """
        missing = delta.reshape(-1, self._k) @ (1 << np.arange(self._k, dtype=np.uint8))
        held = leaves[np.arange(len(leaves))[:, None], np.arange(1 << self._k) ^ missing[:, None]]
        held[:, 0] = 0
        self._delta_bits, self._punctured = delta, held

    def _schedule(self, keys: Bytes) -> Bytes:
        return self._kernels.expand_keys(keys.reshape(-1, seed_trees.SEED_BYTES)).reshape(*keys.shape[:2], 176)

    def extend(self, count: int) -> Steps[Transfers]:
        """At least `count` transfers each way: three exchanges (corrections, challenges, answers)."""
        chunks = -(-count // CHUNK) + 1  # the last one's first block hides the check's sums, the rest of it is dropped
        check_budget(self._chunks * CHUNK, chunks * CHUNK)
        first_chunk, self._chunks = self._chunks, self._chunks + chunks
        first_block = first_chunk * (CHUNK_BYTES // 16)
        mine, theirs = (self._rows(sender, chunks) for sender in (self._role, 1 - self._role))
        choices, corrections, receiver_rows = self._kernels.extend_receiver(
            self._owned, self._k, first_block, chunks, theirs
        )
        (answer,) = yield [corrections.reshape(-1)]
        sender_rows = self._kernels.extend_sender(
            self._punctured, self._k, first_block, -self._delta_bits, answer.reshape(corrections.shape), mine
        )
        yield from self._check(choices, receiver_rows, sender_rows)
        keep = (chunks - 1) * CHUNK
        return Transfers(
            self._kernels, self._hash_key, np.packbits(self._delta_bits, bitorder="little"), sender_rows[:keep],
            receiver_rows[:keep], np.unpackbits(choices[:-1].reshape(-1), bitorder="little"), first_chunk * CHUNK,
            self._role,
        )  # fmt: skip

    def _rows(self, sender: int, chunks: int) -> Bytes | None:
        return None if self._room is None else self._room.rows(sender, chunks * CHUNK)

    def _check(self, choices: Bytes, receiver_rows: Bytes, sender_rows: Bytes) -> Steps[None]:
        seed = self._rng.bytes(32)
        (their_seed,) = yield [np.frombuffer(seed, np.uint8)]
        chunks = len(choices)
        challenges = _challenges(their_seed.tobytes(), chunks)
        digest = self._digest(_reduced(self._kernels.hash_columns(receiver_rows, challenges)))
        choice_sum = _reduced(self._kernels.inner_product(choices.reshape(-1, 16), challenges)[None])
        (answer,) = yield [np.concatenate([choice_sum.reshape(-1), digest])]
        expected_sum, expected_digest = answer[:16], answer[16:]
        columns = _reduced(self._kernels.hash_columns(sender_rows, _challenges(seed, chunks)))
        columns ^= expected_sum & -self._delta_bits[:, None]
        if self._digest(columns).tobytes() != expected_digest.tobytes():
            raise PeerCheatedError("the other server's extension of oblivious transfers is not consistent")

    def _digest(self, columns: Bytes) -> Bytes:
        text = b"parley extension check v1" + self._session + columns.tobytes()
        return np.frombuffer(hashlib.sha256(text).digest(), np.uint8)


def _challenges(seed: bytes, chunks: int) -> Bytes:
    """One element of GF(2^128) for each block of 128 transfers; 1 for the hiding block, 0 for what is dropped with
    it.
    """
    out = Csprng(hashlib.sha256(b"parley challenges v1" + seed).digest()).octets(chunks * CHALLENGES, 16)
    out[-CHALLENGES:] = 0
    out[-CHALLENGES] = ONE
    return out


def _reduced(products: Bytes) -> Bytes:
    """Modulo x^128 + x^7 + x^2 + x + 1: uint8[n, 32] -> uint8[n, 16]."""
    word = products.view("<u8").T
    one, two, seven, rest = (np.uint64(by) for by in (1, 2, 7, 64))
    beyond = word[3] >> (rest - one) ^ word[3] >> (rest - two) ^ word[3] >> (rest - seven)
    low, high = word[2] ^ beyond, word[3]
    out = np.empty((len(products), 2), "<u8")
    out[:, 0] = word[0] ^ low ^ low << one ^ low << two ^ low << seven
    carry = low >> (rest - one) ^ low >> (rest - two) ^ low >> (rest - seven)
    out[:, 1] = word[1] ^ high ^ high << one ^ high << two ^ high << seven ^ carry
    return out.view(np.uint8)
