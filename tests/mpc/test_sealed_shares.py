"""A share of acceptance is sealed until both are there."""

from typing import Any

import numpy as np

from parley.mpc.channel import Channel
from parley.mpc.errors import SealBrokenError
from parley.mpc.randomness import Csprng
from parley.mpc.sealed_shares import exchanged, seal
from parley.mpc.steps import Bytes, Steps
from tests.support.two import outcomes, run_both


def test_a_share_arrives_as_it_was_sealed() -> None:
    def end(role: int, channel: Channel) -> Bytes:
        return channel.run(exchanged(role, np.full(5, 7 + role, np.uint8), Csprng(bytes([role]) * 32)))

    a, b = run_both(end)
    assert (a == 8).all()
    assert (b == 7).all()


def test_a_server_that_returns_the_others_seal_cannot_open_it() -> None:
    """With the role in the hash: else it would return the other's opening as well, and both shares would be equal."""

    def mirror(share: Bytes) -> Steps[Bytes]:
        salt = np.zeros(32, np.uint8)
        yield [np.frombuffer(seal(0, salt, share), np.uint8)]  # what server 0 sends
        _, theirs = yield [salt, share]
        return theirs

    class Zeros(Csprng):
        def octets(self, *shape: int) -> Bytes:
            return np.zeros(shape, np.uint8)

    share = np.full(3, 9, np.uint8)

    def end(role: int, channel: Channel) -> Any:
        return channel.run(exchanged(0, share, Zeros(bytes(32))) if role == 0 else mirror(share))

    assert type(outcomes(end)[0]) is SealBrokenError
