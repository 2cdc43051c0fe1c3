"""INSECURE: transfers from a seed that both servers know. For fast tests of everything above the transfers, nothing
else.

Whoever knows the seed knows every pad, so each server could compute the noise. A dealer therefore has to be asked for
by name, warns each time it is made, and refuses to exist where PARLEY_ENV says `production`; the pool, the session
opened by `parley.mpc.session` and the command line have no parameter that would take one.
"""

import os
import warnings

import numpy as np

from parley.mpc.errors import ConfigurationError
from parley.mpc.kernels import CHUNK, Kernels
from parley.mpc.randomness import Csprng
from parley.mpc.steps import Steps
from parley.mpc.transfers import Transfers, check_budget


class Dealer:
    """A TransferSource without any protection. Both ends: Dealer(kernels, role, seed, i_know_this_is_insecure=True)."""

    def __init__(self, kernels: Kernels, role: int, seed: bytes, *, i_know_this_is_insecure: bool) -> None:
        if i_know_this_is_insecure is not True:
            raise ConfigurationError(
                "the dealer is insecure and for tests only: say so by i_know_this_is_insecure=True"
            )
        if os.environ.get("PARLEY_ENV", "").lower() == "production":
            raise ConfigurationError("the dealer cannot be used in production: both servers would know the noise")
        warnings.warn("INSECURE dealer in use: both servers know all randomness; for tests only", stacklevel=2)
        self._kernels, self._role = kernels, role
        self._rng = Csprng(seed)
        self._hash_key = kernels.expand_keys(self._rng.octets(1, 16))[0]
        self._deltas = self._rng.octets(2, 16)
        self._deltas[:, 0] |= 1
        self._used = 0

    def extend(self, count: int) -> Steps[Transfers]:
        """At least `count` transfers each way, without a word to the peer."""
        yield from ()
        count = -(-count // CHUNK) * CHUNK
        check_budget(self._used, count)
        first, self._used = self._used, self._used + count
        ends = []
        for sender in (0, 1):
            rows, choices = self._rng.octets(count, 16), self._rng.bits(count)
            ends.append((rows ^ (choices[:, None] * self._deltas[sender]), rows, choices))
        sender_rows = ends[self._role][0]
        _, receiver_rows, choices = ends[1 - self._role]
        return Transfers(
            self._kernels, self._hash_key, self._deltas[self._role], np.ascontiguousarray(sender_rows), receiver_rows,
            choices, first, self._role,
        )  # fmt: skip
