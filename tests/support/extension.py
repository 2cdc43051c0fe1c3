"""Two ends of extended transfers."""

import numpy as np

from parley.mpc.base_ot import transfer
from parley.mpc.kernels import kernels
from parley.mpc.ot_extension import ObliviousTransfers
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Steps
from parley.mpc.transfers import Room, Transfers

SESSION, KEY = b"extension test..", b"hash key of test"


def source(role: int, k: int, room: Room | None = None) -> Steps[ObliviousTransfers]:
    rng = Csprng(bytes([role + 10]) * 32)
    base = yield from transfer(role, SESSION, rng)
    made = ObliviousTransfers(kernels(), role, SESSION, np.frombuffer(KEY, np.uint8), base, rng, k, room)
    yield from made.set_up()
    return made


def extended(role: int, k: int, counts: list[int]) -> Steps[list[Transfers]]:
    made = yield from source(role, k)
    parts = []
    for count in counts:
        parts.append((yield from made.extend(count)))
    return parts
