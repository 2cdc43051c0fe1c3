"""How many lanes may be accepted, and accept shares that are sealed before they are opened."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.aggregator.opening import MOST_NOISINGS, NoisedTooOftenError
from parley.aggregator.opening_store import Opened, OpeningStore
from parley.attacks.lying_server import Servers, sampled, servers, uploads
from parley.attacks.servers import LATTICE, Forgetful, Peek, Squeeze, request
from parley.mpc.acceptance import DEVIATIONS, TAIL, accepted_range, binomial_range, check_accepted
from parley.mpc.channel import Channel
from parley.mpc.errors import AcceptedCountError, MpcError, SealBrokenError
from parley.mpc.law import acceptance
from parley.mpc.randomness import Csprng
from parley.mpc.sealed_shares import exchanged, seal
from parley.mpc.steps import Bytes, Steps
from parley.mpc.tables import load
from tests.support.two import outcomes, run_both


def tail(probability: Fraction, lanes: int, counts: range) -> float:
    """Exactly."""
    return float(sum(math.comb(lanes, k) * probability**k * (1 - probability) ** (lanes - k) for k in counts))


@pytest.mark.parametrize("lanes", [16, 48, 512])
@pytest.mark.parametrize("cover", ["strips", "rectangle"])
def test_honest_servers_are_refused_with_a_negligible_probability(cover: Any, lanes: int) -> None:
    """By exact rational sums: below 2^-49 a batch."""
    tables = load(cover, "standard")
    lowest, highest = accepted_range(tables, lanes)
    p = acceptance(tables).limit_denominator(1 << 40)
    outside = tail(p, lanes, range(lowest)) + tail(p, lanes, range(highest + 1, lanes + 1))
    assert outside < 2 * TAIL
    deviations = float((lanes * p - lowest) / (lanes * p * (1 - p)) ** 0.5)
    assert deviations <= DEVIATIONS or tail(p, lanes, range(lowest + 1)) >= 0.9 * TAIL  # and by no more than that


def test_the_range_of_a_full_batch_is_ten_deviations() -> None:
    tables, lanes = load("strips", "standard"), 8192
    p = float(acceptance(tables))
    deviation = math.sqrt(lanes * p * (1 - p))
    lowest, _ = accepted_range(tables, lanes)
    assert DEVIATIONS * deviation <= lanes * p - lowest + 1 < DEVIATIONS * deviation + 2
    assert (lowest, lanes) == (8084, accepted_range(tables, lanes)[1])


def test_a_count_outside_is_refused_and_the_bounds_themselves_are_not() -> None:
    tables = load("rectangle", "standard")
    lowest, highest = accepted_range(tables, 4096)
    check_accepted(tables, 4096, lowest)
    check_accepted(tables, 4096, highest)
    for count in (lowest - 1, highest + 1, 0, 4096):
        with pytest.raises(AcceptedCountError, match="did not follow"):
            check_accepted(tables, 4096, count)
    assert binomial_range(0.5, 4) == (0, 4)


@pytest.mark.parametrize("role", [0, 1])
def test_a_squeezed_batch_ends_the_session_on_both_servers(role: int) -> None:
    found = sampled({role: Squeeze}, 1, 2048)
    assert [type(error) for error in found.errors] == [AcceptedCountError] * 2
    assert found.shares == [[], []]


def test_forced_accept_bits_end_the_session() -> None:
    found = sampled({1: Peek}, 1, 2048, rushing={1})
    assert type(found.errors[0]) is SealBrokenError
    assert found.shares[0] == []


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


# ------------------------------------------------------------ how often a round is noised


@pytest.fixture
def two(tmp_path: Path) -> Any:
    with servers(tmp_path, {}, 512) as made:
        yield made


def put_forgetful(two: Servers, folder: Path, role: int) -> OpeningStore:
    two.stores[role].close()
    two.stores[role] = two.aggregators[role]._store = Forgetful(folder / f"{role}.sqlite")
    return two.stores[role]


@pytest.mark.parametrize("role", [0, 1])
def test_a_round_is_noised_four_times_and_then_lost(two: Servers, tmp_path: Path, role: int) -> None:
    put_forgetful(two, tmp_path, role)
    heard: list[int] = []
    honest = two.aggregators[1 - role]
    opened: list[Opened | MpcError] = []
    inner = honest.open
    honest.open = lambda *a, **k: inner(*a, **{**k, "agreed": heard.append})  # type: ignore[method-assign]
    for _ in range(MOST_NOISINGS + 2):
        opened = two.open(request(), uploads(LATTICE, {"a": np.ones(8), "b": np.ones(8)}))
    assert isinstance(opened[1 - role], NoisedTooOftenError)
    assert heard == [0, 1, 2, 3]  # what the trail is told: which noising it is
    assert two.stores[1 - role].wasted("attacked", 0) == MOST_NOISINGS


def test_how_often_is_on_disk_and_other_rounds_are_not_touched(two: Servers, tmp_path: Path) -> None:
    put_forgetful(two, tmp_path, 1)
    for _ in range(3):
        two.open(request(), uploads(LATTICE, {"a": np.ones(8), "b": np.ones(8)}))
    two.stores[0].close()
    two.stores[0] = two.aggregators[0]._store = OpeningStore(tmp_path / "0.sqlite")
    assert two.stores[0].wasted("attacked", 0) >= 2  # the third is prepared, and not discarded yet
    assert two.stores[0].wasted("attacked", 1) == two.stores[0].wasted("other", 0) == 0


def test_the_others_word_does_not_make_a_committed_share_again(two: Servers, tmp_path: Path) -> None:
    made = {"a": np.ones(8), "b": np.ones(8)}
    first = two.open(request(), uploads(LATTICE, made))
    assert isinstance(first[0], Opened)
    two.stores[1].close()
    (tmp_path / "1.sqlite").unlink()
    two.stores[1] = two.aggregators[1]._store = OpeningStore(tmp_path / "1.sqlite")  # it says that it has nothing
    again = two.open(request(), uploads(LATTICE, made))
    assert all(isinstance(each, MpcError) for each in again)
    kept = two.stores[0].find("attacked", 0)
    assert kept is not None
    assert kept.opened == first[0]
