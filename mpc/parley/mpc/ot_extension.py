"""Oblivious-transfer extension: SoftSpoken (Roy 2022), with the checks that catch a cheating receiver.

128 base transfers become as many as a session needs, at 128/k - 1 bits of traffic each. k = 4 by default (31 bits);
k = 1 is the protocol of Ishai, Kilian, Nissim and Petrank (127 bits) with Roy's consistency check.

Set-up, per tree t of 128/k: the receiver of transfers owns a GGM tree of 2^k leaves; by k base transfers the sender
learns all leaves but number delta_t. A hash over all leaves' second halves proves the tree consistent (Roy's figure
14). Extension: with PRG(leaf x) as columns, u_t = XOR of all, v_tb = XOR of those with bit b of x set; the sender,
relabelling leaves by x ^ delta_t, gets v_tb ^ delta_tb u_t without the missing leaf. The receiver's choices are u_0,
and it sends C_t = u_t ^ u_0. A wrong C_t would tie the sender's rows to guesses of delta: so the sender then names
random challenges chi_i in GF(2^128), one for each block of 128 transfers, and the receiver answers with sum chi_i u_i
and a digest of the 128 columns' sums; columns, not rows, are hashed (Roy's section 5: the row form's proof had a
gap). The last block, its challenge 1, is never used for anything else and hides the sums.
"""

import hashlib

import numpy as np

from parley.mpc.base_ot import BaseTransfers
from parley.mpc.errors import ConfigurationError, PeerCheatedError
from parley.mpc.kernels import CHUNK, CHUNK_BYTES, Bytes, Kernels
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Steps
from parley.mpc.transfers import Transfers, check_budget

SEED_BYTES = 16
PROOF_BYTES = 32
BLOCK = 128
"""Transfers to a challenge."""
CHALLENGES = CHUNK // BLOCK
ONE = np.frombuffer((1).to_bytes(16, "little"), np.uint8)


def _children(node: bytes) -> tuple[bytes, bytes]:
    both = hashlib.sha256(b"parley tree v1" + node).digest()
    return both[:SEED_BYTES], both[SEED_BYTES:]


def _leaf(session: bytes, node: bytes) -> tuple[bytes, bytes]:
    """A leaf's key for the PRG and its witness in the tree's proof."""
    both = hashlib.sha512(b"parley leaf v1" + session + node).digest()
    return both[:SEED_BYTES], both[SEED_BYTES : SEED_BYTES + PROOF_BYTES]


def _xor(*values: bytes) -> bytes:
    total = 0
    for value in values:
        total ^= int.from_bytes(value, "little")
    return total.to_bytes(len(values[0]), "little")


def _proof(session: bytes, tree: int, witnesses: list[bytes]) -> bytes:
    return hashlib.sha256(b"parley tree proof v1" + session + bytes([tree]) + b"".join(witnesses)).digest()


def _grow(session: bytes, tree: int, k: int, root: bytes, pads: Bytes) -> tuple[list[bytes], bytes]:
    """A whole tree: its leaves' keys, and what its other holder needs, masked by `pads` uint8[k, 2, 16]."""
    nodes, message = [root], b""
    for level in range(k):
        pairs = [_children(node) for node in nodes]
        for side in (0, 1):
            message += _xor(*(pair[side] for pair in pairs), pads[level, side].tobytes())
        nodes = [child for pair in pairs for child in pair]
    leaves = [_leaf(session, node) for node in nodes]
    witnesses = [witness for _, witness in leaves]
    return [key for key, _ in leaves], message + _xor(*witnesses) + _proof(session, tree, witnesses)


def _puncture(
    session: bytes, tree: int, k: int, message: bytes, choices: Bytes, pads: Bytes
) -> tuple[int, list[bytes | None]]:
    """All leaves' keys but one, and which one is missing; the path to it turns away from every choice."""
    nodes: list[bytes | None] = [None]
    missing = 0
    for level in range(k):
        side = int(choices[level])
        start = SEED_BYTES * (2 * level + side)
        total = _xor(message[start : start + SEED_BYTES], pads[level].tobytes())
        grown: list[bytes | None] = []
        for node in nodes:
            grown += _children(node) if node is not None else (None, None)
        known = [node for node in grown[side::2] if node is not None]
        grown[2 * missing + side] = _xor(total, *known)
        missing = 2 * missing + 1 - side
        nodes = grown
    keys: list[bytes | None] = []
    witnesses: list[bytes] = []
    for node in nodes:
        key, witness = _leaf(session, node) if node is not None else (None, bytes(PROOF_BYTES))
        keys.append(key)
        witnesses.append(witness)
    tail = message[2 * SEED_BYTES * k :]
    witnesses[missing] = _xor(tail[:PROOF_BYTES], *witnesses)
    if _proof(session, tree, witnesses) != tail[PROOF_BYTES:]:
        raise PeerCheatedError("the other server's tree of seeds is not consistent")
    return missing, keys


class ObliviousTransfers:
    """A session's source of transfers. Never stored and never resumed: a new session makes new base transfers."""

    def __init__(
        self, kernels: Kernels, role: int, session: bytes, hash_key: Bytes, base: BaseTransfers, rng: Csprng, k: int = 4
    ) -> None:
        if k not in (1, 2, 4):
            raise ConfigurationError(f"OT extension with k = {k}: use 1, 2 or 4")
        self._kernels, self._role, self._session, self._rng, self._k = kernels, role, session, rng, k
        self._hash_key = kernels.expand_keys(hash_key.reshape(1, 16))[0]
        self._base = base
        self._chunks = 0
        self._owned = np.empty((0,), np.uint8)
        self._punctured = np.empty((0,), np.uint8)
        self._delta_bits = np.empty((0,), np.uint8)

    def set_up(self) -> Steps[None]:
        """Exchange the trees: one exchange."""
        k, trees = self._k, BLOCK // self._k
        owned, message = [], b""
        for tree in range(trees):
            pads = self._base.sent[k * tree : k * (tree + 1)]
            keys, part = _grow(self._session, tree, k, self._rng.bytes(SEED_BYTES), pads)
            owned += keys
            message += part
        (answer,) = yield [np.frombuffer(message, np.uint8)]
        size = len(message) // trees
        punctured, delta = [], np.empty((trees, k), np.uint8)
        for tree in range(trees):
            base = slice(k * tree, k * (tree + 1))
            part = answer[size * tree : size * (tree + 1)].tobytes()
            missing, found = _puncture(
                self._session, tree, k, part, self._base.choices[base], self._base.received[base]
            )
            delta[tree] = [missing >> b & 1 for b in range(k)]
            punctured += [found[x ^ missing] or bytes(SEED_BYTES) for x in range(1 << k)]
        self._owned = self._schedule(owned)
        self._punctured = self._schedule(punctured)
        self._delta_bits = delta.reshape(BLOCK)
        self._base = BaseTransfers(*(np.empty(0, np.uint8),) * 3)

    def _schedule(self, keys: list[bytes]) -> Bytes:
        flat = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, SEED_BYTES)
        return self._kernels.expand_keys(flat).reshape(BLOCK // self._k, 1 << self._k, 176)

    def extend(self, count: int) -> Steps[Transfers]:
        """At least `count` transfers each way: three exchanges (corrections, challenges, answers)."""
        chunks = -(-count // CHUNK) + 1  # the last one's first block hides the check's sums, the rest of it is dropped
        check_budget(self._chunks * CHUNK, chunks * CHUNK)
        first_chunk, self._chunks = self._chunks, self._chunks + chunks
        first_block = first_chunk * (CHUNK_BYTES // 16)
        choices, corrections, receiver_rows = self._kernels.extend_receiver(self._owned, self._k, first_block, chunks)
        (answer,) = yield [corrections.reshape(-1)]
        sender_rows = self._kernels.extend_sender(
            self._punctured, self._k, first_block, -self._delta_bits, answer.reshape(corrections.shape)
        )
        yield from self._check(choices, receiver_rows, sender_rows)
        keep = (chunks - 1) * CHUNK
        return Transfers(
            self._kernels, self._hash_key, np.packbits(self._delta_bits, bitorder="little"), sender_rows[:keep],
            receiver_rows[:keep], np.unpackbits(choices[:-1].reshape(-1), bitorder="little"), first_chunk * CHUNK,
            self._role,
        )  # fmt: skip

    def _check(self, choices: Bytes, receiver_rows: Bytes, sender_rows: Bytes) -> Steps[None]:
        seed = self._rng.bytes(32)
        (their_seed,) = yield [np.frombuffer(seed, np.uint8)]
        chunks = len(choices)
        challenges = _challenges(their_seed.tobytes(), chunks)
        columns = self._column_sums(receiver_rows, challenges)
        choice_sum = _reduced(self._kernels.inner_product(choices.reshape(-1, 16), challenges))
        digest = hashlib.sha256(b"parley extension check v1" + self._session + b"".join(columns)).digest()
        (answer,) = yield [np.frombuffer(choice_sum + digest, np.uint8)]
        expected_sum, expected_digest = answer[:16].tobytes(), answer[16:].tobytes()
        columns = self._column_sums(sender_rows, _challenges(seed, chunks))
        corrected = [
            _xor(column, expected_sum) if bit else column for column, bit in zip(columns, self._delta_bits, strict=True)
        ]
        digest = hashlib.sha256(b"parley extension check v1" + self._session + b"".join(corrected)).digest()
        if digest != expected_digest:
            raise PeerCheatedError("the other server's extension of oblivious transfers is not consistent")

    def _column_sums(self, rows: Bytes, challenges: Bytes) -> list[bytes]:
        sums = self._kernels.hash_columns(rows, challenges)
        return [_reduced(column) for column in sums]


def _challenges(seed: bytes, chunks: int) -> Bytes:
    """One element of GF(2^128) for each block of 128 transfers; 1 for the hiding block, 0 for what is dropped with
    it.
    """
    out = Csprng(hashlib.sha256(b"parley challenges v1" + seed).digest()).octets(chunks * CHALLENGES, 16)
    out[-CHALLENGES:] = 0
    out[-CHALLENGES] = ONE
    return out


def _reduced(product: Bytes) -> bytes:
    """Modulo x^128 + x^7 + x^2 + x + 1."""
    value = int.from_bytes(product.tobytes(), "little")
    for _ in range(2):
        high = value >> 128
        value = (value & ((1 << 128) - 1)) ^ high ^ (high << 1) ^ (high << 2) ^ (high << 7)
    return value.to_bytes(16, "little")
