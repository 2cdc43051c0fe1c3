"""Every value inside the sampler is the reference implementation’s."""

import numpy as np
import pytest

from parley.mpc.channel import Channel
from parley.mpc.randomness import Csprng
from parley.mpc.sampler import Batch
from parley.mpc.session import Session
from parley.mpc.tables import Cover, Precision, load
from tests.support.lanes import PRESETS, compare
from tests.support.two import dealt_sampler, run_both, run_steps


@pytest.mark.parametrize(("cover", "precision"), PRESETS)
def test_every_internal_value_of_4096_lanes_equals_the_reference(cover: Cover, precision: Precision) -> None:
    tables = load(cover, precision)
    a, b = run_steps(lambda role: dealt_sampler(role, tables).view(4096))
    expected = compare(tables, a, b)
    accepted = np.mean([outcome.accepted for outcome in expected])
    probability = 0.99475 if cover == "strips" else 0.73057
    assert abs(accepted - probability) < 5 * (probability * (1 - probability) / 4096) ** 0.5  # false alarm 6e-7


def test_every_internal_value_over_real_transfers_equals_the_reference() -> None:
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> Batch:
        session = Session(channel, role, tables, Csprng(bytes([role + 3]) * 32))
        channel.next_batch()
        return channel.run(session.sampler.view(4096))

    a, b = run_both(end)
    compare(tables, a, b)
