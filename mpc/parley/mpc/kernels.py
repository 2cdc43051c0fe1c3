"""The compiled inner loops as typed functions of NumPy arrays: every shape is checked here, nothing is below.

`native/kernels.c` says what each loop computes. The wide variant needs AVX-512, VAES, VPCLMULQDQ and GFNI (Intel Ice
Lake, AMD Zen 4 and later); the baseline needs AES and carry-less products: AES-NI and PCLMUL on x86-64, the extension
`aes` on ARM. All give the same bytes.
"""

import ctypes
import platform
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError
from parley.mpc.processor import address, checked, native, not_compiled, processor_features

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

CHUNK = 2048
"""Oblivious transfers come in multiples of this."""
CHUNK_BYTES = CHUNK // 8
ROW_BYTES = 16
WIDE_FEATURES = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "gfni", "vaes", "vpclmulqdq"}
BASELINE_FEATURES = {"aes", "pclmulqdq"} | (set() if platform.machine() in ("arm64", "aarch64") else {"sse4_1"})
Variant = Literal["baseline", "wide"]


def best_variant() -> Variant:
    """The fastest variant this machine can run."""
    features = processor_features()
    if features >= WIDE_FEATURES:
        return "wide"
    if features >= BASELINE_FEATURES:
        return "baseline"
    try:
        native("processor")
    except OSError as error:
        raise not_compiled(error) from None
    raise ConfigurationError(
        f"this machine has no AES instructions that noise could be made with (it lacks "
        f"{', '.join(sorted(BASELINE_FEATURES - features))}): run aggregators, and with them the demonstration, on one "
        "that has them; studies, simulations, predictions and a party run here as they are"
    )


class Kernels:
    """One compiled variant."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        try:
            self._library = native(f"kernels-{variant}")
        except OSError as error:
            raise not_compiled(error) from None
        pointer, size, integer, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64
        signatures: dict[str, list[Any]] = {
            "aes_expand": [pointer, size, pointer],
            "aes_ecb": [pointer, pointer, size],
            "extend_receiver": [pointer, integer, word, size, pointer, pointer, pointer],
            "extend_sender": [pointer, integer, word, size, pointer, pointer, pointer],
            "inner_product": [pointer, pointer, size, pointer],
            "hash_columns": [pointer, pointer, size, pointer],
            "hash_rows": [pointer, pointer, pointer, word, word, size, size, pointer],
            "xor_message": [pointer, pointer, size, pointer, size, ctypes.c_uint8, size, pointer],
            "xor_share": [pointer] * 3 + [size] + [pointer] * 4 + [size, ctypes.c_uint8, size, pointer],
            "ring_message": [pointer] * 4 + [size, word, size, size, pointer],
            "ring_sender_share": [pointer] * 4 + [size, size, pointer],
            "ring_receiver_share": [pointer] * 4 + [size, size, pointer],
            "digit_send": [pointer] * 6 + [size, pointer],
            "digit_receive": [pointer, pointer, pointer, size, pointer],
            "lookup": [pointer, size, pointer, pointer, size, size, pointer],
            "row_bits": [pointer, integer, integer, size, pointer],
        }
        for name, arguments in signatures.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, None

    def expand_keys(self, keys: Bytes) -> Bytes:
        """AES-128 key schedules: uint8[n, 16] -> uint8[n, 176]."""
        out = np.empty((len(keys), 176), np.uint8)
        self._library.aes_expand(checked(keys, (len(keys), 16), np.uint8, "keys"), len(keys), address(out))
        return out

    def encrypt(self, key: Bytes, data: Bytes) -> None:
        """AES-ECB in place; whole multiples of 256 bytes only."""
        if data.size % 256:
            raise ValueError("data: need a multiple of 256 bytes")
        blocks = data.size // 16
        self._library.aes_ecb(
            checked(key, (176,), np.uint8, "key"), checked(data, data.shape, np.uint8, "data"), blocks
        )

    def extend_receiver(
        self, keys: Bytes, k: int, first_block: int, chunks: int, rows: Bytes | None = None
    ) -> tuple[Bytes, Bytes, Bytes]:
        """Choices (packed), corrections for the sender, rows[chunks * 2048, 16]: those given, or new ones."""
        trees = 128 // k
        choices = np.empty((chunks, CHUNK_BYTES), np.uint8)
        corrections = np.empty((chunks, trees - 1, CHUNK_BYTES), np.uint8)
        rows = np.empty((chunks * CHUNK, ROW_BYTES), np.uint8) if rows is None else rows
        self._library.extend_receiver(
            checked(keys, (trees, 1 << k, 176), np.uint8, "keys"), k, first_block, chunks, address(choices),
            address(corrections), checked(rows, (chunks * CHUNK, ROW_BYTES), np.uint8, "rows"),
        )  # fmt: skip
        return choices, corrections, rows

    def extend_sender(
        self, keys: Bytes, k: int, first_block: int, delta_masks: Bytes, corrections: Bytes, rows: Bytes | None = None
    ) -> Bytes:
        """rows[chunks * 2048, 16] of the sender, as above; corrections[chunks, 128 / k - 1, 256] as received."""
        trees, chunks = 128 // k, len(corrections)
        rows = np.empty((chunks * CHUNK, ROW_BYTES), np.uint8) if rows is None else rows
        self._library.extend_sender(
            checked(keys, (trees, 1 << k, 176), np.uint8, "keys"), k, first_block, chunks,
            checked(delta_masks, (128,), np.uint8, "delta masks"),
            checked(corrections, (chunks, trees - 1, CHUNK_BYTES), np.uint8, "corrections"),
            checked(rows, (chunks * CHUNK, ROW_BYTES), np.uint8, "rows"),
        )  # fmt: skip
        return rows

    def inner_product(self, blocks: Bytes, challenges: Bytes) -> Bytes:
        """Unreduced sum of products over GF(2)[x]: uint8[n, 16] twice -> uint8[32]."""
        total = np.zeros(32, np.uint8)
        self._library.inner_product(
            checked(blocks, (len(blocks), 16), np.uint8, "blocks"),
            checked(challenges, (len(blocks), 16), np.uint8, "challenges"), len(blocks), address(total),
        )  # fmt: skip
        return total

    def hash_columns(self, rows: Bytes, challenges: Bytes) -> Bytes:
        """Unreduced inner products over GF(2)[x]: uint8[128, 32], one per column of rows[2048 n, 16], challenges[16
        n, 16].
        """
        chunks = len(rows) // CHUNK
        sums = np.zeros((128, 32), np.uint8)
        self._library.hash_columns(
            checked(rows, (chunks * CHUNK, ROW_BYTES), np.uint8, "rows"),
            checked(challenges, (chunks * 16, 16), np.uint8, "challenges"), chunks, address(sums),
        )  # fmt: skip
        return sums

    def hash_words(self, key: Bytes, rows: Bytes, offset: Bytes, index: int, block: int) -> Words:
        """The low 64 bits of H(row ^ offset, index + i, block): uint64[n]."""
        out = np.empty(len(rows), np.uint64)
        self._hash(key, rows, offset, index, block, 8, address(out))
        return out

    def hash_blocks(self, key: Bytes, rows: Bytes, offset: Bytes, index: int, blocks: int) -> Bytes:
        """H(row ^ offset, index + i, 0), H(..., 1), ... side by side: uint8[n, 16 * blocks]."""
        out = np.empty((len(rows), 16 * blocks), np.uint8)
        self._hash(key, rows, offset, index, 0, 16 * blocks, address(out))
        return out

    def _hash(self, key: Bytes, rows: Bytes, offset: Bytes, index: int, block: int, stride: int, out: int) -> None:
        self._library.hash_rows(
            checked(key, (176,), np.uint8, "key"), checked(rows, (len(rows), ROW_BYTES), np.uint8, "rows"),
            checked(offset, (ROW_BYTES,), np.uint8, "offset"), index, block, len(rows), stride, out,
        )  # fmt: skip

    def xor_message(self, k0: Bytes, k1: Bytes, vectors: Bytes, last: int) -> Bytes:
        """k0 ^ k1 ^ vectors, pads [n, at least width], vectors [n, width]."""
        (count, width), stride = vectors.shape, k0.shape[1]
        if not 1 <= width <= stride:
            raise ValueError("pads shorter than the vectors, or no vectors")
        message = np.empty((count, width), np.uint8)
        self._library.xor_message(
            checked(k0, (count, stride), np.uint8, "k0"), checked(k1, (count, stride), np.uint8, "k1"), stride,
            checked(vectors, (count, width), np.uint8, "vectors"), width, last, count, address(message),
        )  # fmt: skip
        return message

    def xor_share(
        self, k0: Bytes, k1: Bytes, kc: Bytes, flips: Bytes, bits: Bytes, message: Bytes, vectors: Bytes, last: int
    ) -> Bytes:
        """Sender's and receiver's part together: this server's share of bit * vector."""
        (count, width), stride = vectors.shape, k0.shape[1]
        if not 1 <= width <= stride:
            raise ValueError("pads shorter than the vectors, or no vectors")
        share = np.empty((count, width), np.uint8)
        self._library.xor_share(
            checked(k0, (count, stride), np.uint8, "k0"), checked(k1, (count, stride), np.uint8, "k1"),
            checked(kc, (count, stride), np.uint8, "kc"), stride, checked(flips, (count,), np.uint8, "flips"),
            checked(bits, (count,), np.uint8, "bits"), checked(message, (count, width), np.uint8, "message"),
            checked(vectors, (count, width), np.uint8, "vectors"), width, last, count, address(share),
        )  # fmt: skip
        return share

    def ring_message(self, k0: Words, k1: Words, bits: Bytes, values: Words, ring_bits: int) -> Bytes:
        """k0 - k1 + (1 - 2 bit) value mod 2^ring_bits, uint8[n, width]; values uint64[1] means one value for all."""
        count, width = len(k0), (ring_bits + 7) // 8
        if not 0 < ring_bits <= 64:
            raise ValueError("ring_message: rings of 1 to 64 bits")
        step = 0 if values.shape == (1,) else 1
        message = np.empty((count, width), np.uint8)
        self._library.ring_message(
            checked(k0, (count,), np.uint64, "k0"), checked(k1, (count,), np.uint64, "k1"),
            checked(bits, (count,), np.uint8, "bits"), checked(values, (count,) if step else (1,), np.uint64, "values"),
            step, (1 << ring_bits) - 1, width, count, address(message),
        )  # fmt: skip
        return message

    def ring_sender_share(self, k0: Words, flips: Bytes, bits: Bytes, values: Words, share: Words) -> None:
        """Adds the sender's part to share[n]."""
        count = len(share)
        step = 0 if values.shape == (1,) else 1
        self._library.ring_sender_share(
            checked(k0, (count,), np.uint64, "k0"), checked(flips, (count,), np.uint8, "flips"),
            checked(bits, (count,), np.uint8, "bits"), checked(values, (count,) if step else (1,), np.uint64, "values"),
            step, count, checked(share, (count,), np.uint64, "share"),
        )  # fmt: skip

    def ring_receiver_share(self, kc: Words, flips: Bytes, choices: Bytes, message: Bytes, share: Words) -> None:
        """Adds the receiver's part to share[n]."""
        count, width = message.shape
        if width > 8:
            raise ValueError("ring_receiver_share: message wider than a word")
        self._library.ring_receiver_share(
            checked(kc, (count,), np.uint64, "kc"), checked(flips, (count,), np.uint8, "flips"),
            checked(choices, (count,), np.uint8, "choices"), checked(message, (count, width), np.uint8, "message"),
            width, count, checked(share, (count,), np.uint64, "share"),
        )  # fmt: skip

    def digit_send(
        self, k0: Words, k1: Words, flips: Bytes, digits: Bytes, tables: NDArray[np.uint32], masks: Bytes,
        message: NDArray[np.uint32],
    ) -> None:  # fmt: skip
        """One-of-sixteen tables of two-bit answers: k0, k1, flips [4, n], the rest [n]."""
        count = len(digits)
        self._library.digit_send(
            checked(k0, (4, count), np.uint64, "k0"), checked(k1, (4, count), np.uint64, "k1"),
            checked(flips, (4, count), np.uint8, "flips"), checked(digits, (count,), np.uint8, "digits"),
            checked(tables, (16,), np.uint32, "tables"), checked(masks, (count,), np.uint8, "masks"), count,
            checked(message, (count,), np.uint32, "message"),
        )  # fmt: skip

    def digit_receive(self, kc: Words, digits: Bytes, message: NDArray[np.uint32], out: Bytes) -> None:
        """The other end of digit_send."""
        count = len(digits)
        self._library.digit_receive(
            checked(kc, (4, count), np.uint64, "kc"), checked(digits, (count,), np.uint8, "digits"),
            checked(message, (count,), np.uint32, "message"), count, checked(out, (count,), np.uint8, "out"),
        )  # fmt: skip

    def lookup(self, onehot: Bytes, rows: Bytes, matrices: Words) -> Bytes:
        """XOR of the rows that the one-hot shares select: rows[t, 8 w, 16] -> uint8[t, n, 16]."""
        (count, width), tables = onehot.shape, len(rows)
        if width > 256:
            raise ValueError("one-hot vectors of more than 2,048 entries")
        out = np.empty((tables, count, ROW_BYTES), np.uint8)
        self._library.lookup(
            checked(onehot, (count, width), np.uint8, "one-hot"), width,
            checked(rows, (tables, 8 * width, ROW_BYTES), np.uint8, "rows"),
            checked(matrices, (tables, width, ROW_BYTES), np.uint64, "matrices"), tables, count, address(out),
        )  # fmt: skip
        return out

    def row_bits(self, rows: Bytes, first: int, bits: int) -> Bytes:
        """Bits first .. first + bits of every row: uint8[bits, n]."""
        if first < 0 or bits < 1 or first + bits > 8 * ROW_BYTES:
            raise ValueError("bits beyond the row")
        count = len(rows)
        out = np.empty((bits, count), np.uint8)
        self._library.row_bits(checked(rows, (count, ROW_BYTES), np.uint8, "rows"), first, bits, count, address(out))
        return out


def as_matrices(rows: Bytes) -> Words:
    """Rows [t, 8 w, 16] as the 8 x 8 bit matrices that GFNI multiplies by: [t, w, 16].

    Byte 7 - i of a matrix says which of the eight one-hot bits contribute to bit i of the result byte.
    """
    tables, entries, _ = rows.shape
    bits = np.unpackbits(rows.reshape(tables, entries // 8, 8, ROW_BYTES, 1), axis=-1, bitorder="little")
    masks = np.packbits(bits.transpose(0, 1, 3, 4, 2), axis=-1, bitorder="little")[..., 0]  # [t, w, byte, bit]
    return np.ascontiguousarray(masks[..., ::-1]).view(np.uint64)[..., 0]


@cache
def kernels(variant: Variant | None = None) -> Kernels:
    """The given variant, or the fastest that this machine runs."""
    return Kernels(variant or best_variant())
