"""What one server sees: uniform bits that do not predict the sample, in lengths and numbers that depend on nothing
secret.

Received words are taken where the gates read them, with their true layout: every message passes one of three kernels.
"""

from typing import Any

import numpy as np
import pytest

from parley.mpc.channel import Channel, record
from parley.mpc.kernels import Bytes, Kernels, Words, best_variant
from parley.mpc.randomness import Csprng
from parley.mpc.sampler import Batch
from parley.mpc.session import Session
from parley.mpc.steps import as_bytes
from parley.mpc.tables import load
from tests.support.two import run_both

Transcript = list[tuple[Bytes, Bytes]]
LANES = 4096


class SpyingKernels(Kernels):
    """Keeps a copy of every received message: uint8[lanes, width], and of every correction of the extension."""

    def __init__(self) -> None:
        super().__init__(best_variant())
        self.messages: list[Bytes] = []
        self.digits: list[Bytes] = []
        self.corrections: list[Bytes] = []

    def xor_share(self, *arguments: Any) -> Bytes:
        self.messages += list(np.array(arguments[5]).reshape(-1, LANES, arguments[5].shape[1]))
        return super().xor_share(*arguments)

    def ring_receiver_share(self, kc: Words, flips: Bytes, choices: Bytes, message: Bytes, share: Words) -> None:
        self.messages += list(np.array(message).reshape(-1, LANES, message.shape[1]))
        super().ring_receiver_share(kc, flips, choices, message, share)

    def digit_receive(self, kc: Words, digits: Bytes, message: Any, out: Bytes) -> None:
        self.digits.append(as_bytes(message).reshape(len(message), 4).copy())
        super().digit_receive(kc, digits, message, out)

    def extend_sender(self, *arguments: Any) -> Bytes:
        self.corrections.append(np.array(arguments[4]))
        return super().extend_sender(*arguments)


Runs = list[list[tuple[Batch, SpyingKernels]]]


def watched(seeds: tuple[int, int], batches: int) -> Runs:
    """Both servers' views of some batches over real transfers, with what each received in each."""
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> list[tuple[Batch, SpyingKernels]]:
        spy = SpyingKernels()
        session = Session(channel, role, tables, Csprng(seeds[role].to_bytes(32, "little")), native=spy)
        out = []
        for _ in range(batches):
            channel.next_batch()
            view = channel.run(session.sampler.view(LANES))
            kept = SpyingKernels.__new__(SpyingKernels)
            kept.messages, kept.digits, kept.corrections = spy.messages, spy.digits, spy.corrections
            spy.messages, spy.digits, spy.corrections = [], [], []
            out.append((view, kept))
        return out

    return run_both(end)


def features(view: Batch, seen: SpyingKernels) -> Any:
    """Everything of one server's view that belongs to a lane: uint8[features, lanes]."""
    lanes = len(view.accepted)
    shares = [words.view(np.uint8).reshape(lanes, 8) for words in (view.threshold, view.ratio, view.product)]
    bits = [view.level, view.positions, view.heights, view.signs[None], view.multiplexed]
    columns = [*seen.messages, view.index, view.tail_index, view.row, *shares, *(part.T for part in bits)]
    return np.concatenate(columns, axis=1).T


def correlations(runs: Runs, server: int) -> tuple[float, int]:
    """Largest |z| among correlations of x, |x|, x^2 with every byte of the view; and how many there are."""
    sums, total = np.zeros(1), 0
    for (view, seen), (other, _) in zip(runs[server], runs[1 - server], strict=True):
        kept = view.accepted.astype(bool)
        x = ((view.product + other.product)[kept].view(np.int64) / 2.0**41).astype(np.float64)
        targets = np.stack([x, (np.abs(x) - (2 / np.pi) ** 0.5) / (1 - 2 / np.pi) ** 0.5, (x**2 - 1) / 2**0.5])
        block = features(view, seen)[:, kept].astype(np.float64)
        spread = block.std(axis=1, keepdims=True)
        spread[spread == 0] = 1
        sums = sums + ((block - block.mean(axis=1, keepdims=True)) / spread) @ targets.T
        total += int(kept.sum())
    z = sums / total**0.5
    return float(np.abs(z).max()), z.size


@pytest.mark.parametrize("server", [0, 1])
def test_one_servers_view_does_not_predict_the_sample(server: int) -> None:
    largest, count = correlations(watched((11, 12), 4), server)
    assert count > 2500
    # `count` normal deviates, of which one exceeds 6.5 with probability count * 8e-11 < 1e-6
    assert largest < 6.5


@pytest.mark.slow
def test_one_servers_view_does_not_predict_the_sample_over_many_lanes() -> None:
    """Both servers' views of the same session."""
    runs = watched((21, 22), 100)
    for server in (0, 1):
        largest, _ = correlations(runs, server)
        assert largest < 6.5, server


def test_the_harness_sees_a_leak() -> None:
    """The sign itself, which only both servers together have, correlates as it must."""
    runs = watched((31, 32), 1)
    (view, _), (peer, _) = runs[0][0], runs[1][0]
    kept = view.accepted.astype(bool)
    x = (view.product + peer.product)[kept].view(np.int64) / 2.0**41
    leak = (view.signs ^ peer.signs)[kept].astype(np.float64)
    z = float(((leak - leak.mean()) / leak.std() * x).sum() / len(x) ** 0.5)
    assert abs(z) > 30


def ones(columns: Bytes) -> Any:
    """z of the number of ones of every bit position, but for those that are masked to zero in all lanes."""
    count = np.unpackbits(columns, axis=1).sum(axis=0, dtype=np.float64)
    return (count[count > 0] - len(columns) / 2) / (len(columns) / 4) ** 0.5


@pytest.mark.parametrize("server", [0, 1])
def test_every_received_bit_is_uniform(server: int) -> None:
    _, seen = watched((41, 42), 1)[server][0]
    z = np.concatenate([ones(message) for message in (*seen.messages, *seen.digits)])
    assert len(z) > 6000
    assert np.abs(z).max() < 7.5  # 7,000 normal deviates: false alarm 5e-10
    assert abs((z**2).mean() - 1) < 7 * (2 / len(z)) ** 0.5
    (corrections,) = seen.corrections
    z = (np.unpackbits(corrections.reshape(-1, 256), axis=1).sum(axis=1, dtype=np.float64) - 1024) / 512**0.5
    assert np.abs(z).max() < 7.5


@pytest.mark.parametrize("server", [0, 1])
def test_every_received_byte_that_is_full_is_uniform(server: int) -> None:
    _, seen = watched((43, 44), 2)[server][0]
    columns = np.concatenate([*seen.messages], axis=1)
    full = columns[:, np.bitwise_or.reduce(columns, axis=0) == 255]
    assert full.shape[1] > 500
    expected = LANES / 256
    for column in full.T:
        counts = np.bincount(column, minlength=256)
        chi2 = ((counts - expected) ** 2 / expected).sum()
        assert chi2 < 255 + 8 * (2 * 255) ** 0.5  # 1,000 columns: false alarm below 1e-8


def recorded(seeds: tuple[int, int]) -> list[tuple[Transcript, Batch]]:
    """Both servers' transcripts (sent, received) and views of one batch over real transfers."""
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> tuple[Transcript, Batch]:
        session = Session(channel, role, tables, Csprng(seeds[role].to_bytes(32, "little")))
        channel.next_batch()
        transcript: Transcript = []
        return transcript, record(channel, transcript, session.sampler.view(LANES))

    return run_both(end)


def test_lengths_and_counts_do_not_depend_on_secrets() -> None:
    shapes = []
    for seeds in ((1, 2), (3, 4), (5, 2)):
        for transcript, _ in recorded(seeds):
            shapes.append([(len(sent), len(received)) for sent, received in transcript])
    assert all(shape == shapes[0] for shape in shapes)
    assert all(sent == received for sent, received in shapes[0])


def test_the_other_sides_randomness_alone_makes_the_transcript_fresh() -> None:
    """Same seed here, other seeds there: what arrives is unrelated, bit by bit."""
    first, second = (watched((7, there), 1)[0][0][1] for there in (100, 101))
    z = np.concatenate([ones(a ^ b) for a, b in zip(first.messages, second.messages, strict=True)])
    assert np.abs(z).max() < 7.5


def test_the_same_seeds_replay_the_same_transcript() -> None:
    first, second = recorded((51, 52))[0], recorded((51, 52))[0]
    assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(first[0], second[0], strict=True))
    assert (first[1].product == second[1].product).all()


class CountingKernels(Kernels):
    """Keeps where every pad comes from: direction and index, block, and whether the row is shifted by delta."""

    def __init__(self) -> None:
        super().__init__(best_variant())
        self.pads: list[tuple[int, int, bool, bytes]] = []

    def _hash(self, key: Bytes, rows: Bytes, offset: Bytes, index: int, block: int, stride: int, out: int) -> None:
        for b in range(block, block + max(1, stride // 16)):
            for i in range(0, len(rows), 64):  # every 64th: slots are contiguous runs of thousands
                self.pads.append((index + i, b, bool(offset.any()), rows[i].tobytes()))
        super()._hash(key, rows, offset, index, block, stride, out)


def test_no_pad_is_used_for_two_purposes_and_no_transfer_comes_twice() -> None:
    """Over two batches: each (direction and index, block, shift) is hashed once, of rows that never repeat."""
    tables = load("strips", "standard")

    def end(role: int, channel: Channel) -> tuple[CountingKernels, list[Batch]]:
        spy = CountingKernels()
        session = Session(channel, role, tables, native=spy)
        views = []
        for _ in range(2):
            channel.next_batch()
            views.append(channel.run(session.sampler.view(512)))
        return spy, views

    for spy, views in run_both(end):
        places = [pad[:3] for pad in spy.pads]
        assert len(places) > 1000
        assert len(set(places)) == len(places)
        rows = {(pad[0], pad[3]) for pad in spy.pads}
        assert len({row for _, row in rows}) == len(rows)
        same = (views[0].heights == views[1].heights).mean()
        assert abs(same - 0.5) < 7 * 0.5 / views[0].heights.size ** 0.5
