"""The trees of seeds in plain Python, a node at a time: what `native/trees.c` must compute."""

import hashlib

SEED_BYTES = 16
PROOF_BYTES = 32


def children(node: bytes) -> tuple[bytes, bytes]:
    both = hashlib.sha256(b"parley tree v1" + node).digest()
    return both[:SEED_BYTES], both[SEED_BYTES:]


def leaf(session: bytes, node: bytes) -> tuple[bytes, bytes]:
    """A leaf's key for the PRG and its witness in the tree's proof."""
    both = hashlib.sha512(b"parley leaf v1" + session + node).digest()
    return both[:SEED_BYTES], both[SEED_BYTES : SEED_BYTES + PROOF_BYTES]


def xor(*values: bytes) -> bytes:
    total = 0
    for value in values:
        total ^= int.from_bytes(value, "little")
    return total.to_bytes(len(values[0]), "little")


def proof(session: bytes, tree: int, witnesses: list[bytes]) -> bytes:
    return hashlib.sha256(b"parley tree proof v1" + session + bytes([tree]) + b"".join(witnesses)).digest()


def grow(session: bytes, tree: int, k: int, root: bytes, pads: list[list[bytes]]) -> tuple[list[bytes], bytes]:
    """A whole tree: its leaves' keys, and what its other holder needs, masked by `pads[level][side]`."""
    nodes, message = [root], b""
    for level in range(k):
        pairs = [children(node) for node in nodes]
        for side in (0, 1):
            message += xor(*(pair[side] for pair in pairs), pads[level][side])
        nodes = [child for pair in pairs for child in pair]
    leaves = [leaf(session, node) for node in nodes]
    witnesses = [witness for _, witness in leaves]
    return [key for key, _ in leaves], message + xor(*witnesses) + proof(session, tree, witnesses)


def puncture(
    session: bytes, tree: int, k: int, message: bytes, choices: list[int], pads: list[bytes]
) -> tuple[int, list[bytes | None], bool]:
    """Which leaf is missing (the path to it turns away from every choice), all others' keys, and whether the proof
    holds."""
    nodes: list[bytes | None] = [None]
    missing = 0
    for level, side in enumerate(choices):
        start = SEED_BYTES * (2 * level + side)
        total = xor(message[start : start + SEED_BYTES], pads[level])
        grown: list[bytes | None] = []
        for node in nodes:
            grown += children(node) if node is not None else (None, None)
        known = [node for node in grown[side::2] if node is not None]
        grown[2 * missing + side] = xor(total, *known)
        missing = 2 * missing + 1 - side
        nodes = grown
    found = [leaf(session, node) if node is not None else (None, bytes(PROOF_BYTES)) for node in nodes]
    witnesses = [witness for _, witness in found]
    tail = message[2 * SEED_BYTES * k :]
    witnesses[missing] = xor(tail[:PROOF_BYTES], *witnesses)
    return missing, [key for key, _ in found], proof(session, tree, witnesses) == tail[PROOF_BYTES:]
