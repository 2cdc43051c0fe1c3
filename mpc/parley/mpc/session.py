"""Opening a session between the two servers: agree on tables and on fresh randomness, then make base transfers.

Hello (one exchange): protocol version, role, digest of the public tables, 32 random bytes. The session id and the key
of the pads' hash come from both servers' random bytes. A session lives in memory only; after any error, a crash or a
restart, a new one is opened (about 60 ms), so that no transfer, seed or delta is ever used twice.
"""

import hashlib
import struct
import time

import numpy as np

from parley.mpc.base_ot import transfer
from parley.mpc.channel import SESSION_BYTES, Channel
from parley.mpc.errors import ConfigurationError, FrameError, TablesDifferError
from parley.mpc.kernels import Kernels, kernels
from parley.mpc.ot_extension import ObliviousTransfers
from parley.mpc.randomness import Csprng
from parley.mpc.sampler import Sampler
from parley.mpc.steps import Message, Steps
from parley.mpc.tables import Tables
from parley.mpc.transfers import Room

MAGIC = b"parley.mpc.v3\0\0\0"
HELLO = struct.Struct("<16sB32s32s")


def greet(role: int, tables: Tables, rng: Csprng, place: bytes = b"") -> Steps[tuple[bytes, bytes]]:
    """The session id and the hash key. Two ends that do not mean the same place have different ones."""
    if role not in (0, 1):
        raise ConfigurationError(f"role {role}: the two servers are 0 and 1")
    mine = HELLO.pack(MAGIC, role, tables.digest, rng.bytes(32))
    answer: Message = yield [np.frombuffer(mine, np.uint8)]
    theirs = answer[0].tobytes()
    magic, their_role, digest, _ = HELLO.unpack(theirs)
    if magic != MAGIC:
        raise FrameError("the other side does not speak this version of the noise protocol")
    if their_role != 1 - role:
        raise FrameError(f"both servers claim role {role}: one must be 0 (A), the other 1 (B)")
    if digest != tables.digest:
        raise TablesDifferError(
            "the other server has other sampler tables: install the same release on both, same preset"
        )
    hellos = (mine + theirs) if role == 0 else (theirs + mine)
    key = hashlib.sha512(b"parley session v1" + hellos + place).digest()
    return key[:SESSION_BYTES], key[32:48]


class Session:
    """One server's end of a live session: shares of Gaussian samples, batch by batch."""

    def __init__(self, channel: Channel, role: int, tables: Tables, rng: Csprng | None = None, k: int = 4,
                 native: Kernels | None = None) -> None:  # fmt: skip
        """Greets, makes base transfers and trees. In production `rng` is None: system entropy, drawn in this call."""
        rng = rng or Csprng.from_system()
        native = native or kernels()
        started = time.perf_counter()
        self.channel, self.tables = channel, tables
        session, hash_key = channel.run(greet(role, tables, rng, channel.place))
        channel.open_session(session, role)
        self.id = session
        base = channel.run(transfer(role, session, rng))
        source = ObliviousTransfers(native, role, session, np.frombuffer(hash_key, np.uint8), base, rng, k, Room())
        channel.run(source.set_up())
        self.sampler = Sampler(native, role, tables, source, rng)
        self.base_ot_seconds = time.perf_counter() - started

    def samples(self, lanes: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Shares of the samples accepted among `lanes` lanes."""
        self.channel.next_batch()
        return self.channel.run(self.sampler.batch(lanes))

    def close(self) -> None:
        self.channel.close()
