"""Every way to change one bit of something signed that travels as PEM."""

import base64
from collections.abc import Iterator


def each_bit_changed(pem: bytes) -> Iterator[bytes]:
    """As PEM of the same kind."""
    first, *body, last = pem.strip().splitlines()
    data = base64.b64decode(b"".join(body))
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            yield b"\n".join([first, base64.b64encode(changed), last, b""])
