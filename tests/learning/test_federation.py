"""The federation in one process is the federation: same integers as over shares, same law of noise."""

import itertools

import numpy as np
import pytest

from parley.algorithms.algorithm import Algorithm, Plan, Setting
from parley.algorithms.registry import build, known, query_of
from parley.learning.models import Linear, Logistic
from parley.learning.records import Records
from parley.learning.rows import DenseRows
from parley.mpc.clear import ClearSampler
from parley.mpc.law import acceptance, cell_probability
from parley.mpc.parts import NoiseParts
from parley.mpc.randomness import Csprng
from parley.mpc.reference import Lane, sample
from parley.mpc.ring import expand, share
from parley.mpc.tables import FORMATS, load
from parley.privacy.mechanism import Unit
from parley.study.simulation import Federation, calibrate, mechanism_of, split

D, N = 6, 240


def records(seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    values = rng.integers(-64, 65, (N, D))
    targets = (values @ rng.normal(0, 1, D) + rng.normal(0, 20, N) > 0).astype(np.float64)
    return Records(DenseRows.of(values, 6), targets, row_bound=3.0)


def federation(name: str, noise: bool, **parameters: object) -> tuple[Federation, Algorithm, Plan]:
    algorithm = build(name, dict(parameters))
    plan = algorithm.plan(Setting(N, D, 1.0, 1e-5, 3.0))
    parties = split(records(), 3, 0)
    sizes = {party: each.units for party, each in parties.items()}
    mechanism = mechanism_of(plan, sizes, 1e-5, 1.5, Unit())
    return Federation(algorithm, plan, Linear(D, Logistic()), parties, mechanism, 5, noise), algorithm, plan


@pytest.mark.parametrize("sampling", ["wor", "poisson"])
def test_without_noise_the_trajectory_is_bit_for_bit_that_of_shares_over_the_ring(sampling: str) -> None:
    parameters = {"batch": 30, "passes": 2.0, "gradient_norm": 1.0, "difference_norm": 0.1, "gamma": 0.5}
    clear, _, _ = federation("ddp-srm", False, sampling=sampling, **parameters)
    expected = clear.run().theta

    shared, algorithm, plan = federation("ddp-srm", False, sampling=sampling, **parameters)
    algorithm.begin(plan, shared.start(), 0.0, shared.public)
    seeds = Csprng(bytes(32))
    for round_index in range(shared.mechanism.releases):
        ask = algorithm.ask(round_index)
        lattice = shared.encoding.lattice(round_index)
        total_a, total_b = np.zeros(D, np.uint64), np.zeros(D, np.uint64)
        for party in shared.parties:
            contribution = party.contribution(query_of(round_index, ask))
            seed = seeds.bytes(32)
            total_a += share(contribution, seed)
            total_b += expand(seed, D)
        # No noise: zero samples, shared as the pool shares them.
        mask = seeds.words(D)
        aligned = mask & ~np.uint64((1 << lattice.dropped_bits) - 1)
        opened = lattice.open(
            lattice.release_share(0, total_a, aligned), lattice.release_share(1, total_b, np.uint64(0) - aligned)
        )
        algorithm.tell(round_index, lattice.decode(opened) / shared.mechanism.expected_batch(round_index))
    assert (algorithm.result() == expected).all()
    assert np.abs(expected).max() > 0.01


def test_the_clear_sampler_computes_what_the_reference_computes() -> None:
    """Lane by lane, from the same random choices."""
    tables = load("strips", "standard")
    form = FORMATS["standard"]
    lanes = 4000
    words = Csprng(bytes(32)).words(3, lanes)
    found = iter(ClearSampler(tables, Csprng(bytes(32))).accepted(lanes).tolist())
    accepted = 0
    for first, second, third in words.T.tolist():
        level = 0
        while level < form.tail_levels - 1 and third >> 4 * level & 15 == 0:
            level += 1
        lane = Lane(
            first & 2047, first >> 11 & (1 << form.tail_bits) - 1, level,
            first >> 11 + form.tail_bits & (1 << form.position_bits) - 1,
            second & (1 << form.threshold_bits) - 1, bool(second >> form.threshold_bits & 1),
        )  # fmt: skip
        outcome = sample(tables, lane)
        if outcome.accepted:
            accepted += 1
            assert next(found) == outcome.sample
    assert accepted > 0.98 * lanes
    assert next(found, None) is None


def test_the_clear_sampler_has_the_protocols_distribution() -> None:
    """Chi-square against the exactly enumerated law, tails included; false alarms: one in a million."""
    tables = load("strips", "standard")
    sampler = ClearSampler(tables, Csprng(b"\x07" * 32))
    lanes = 1 << 20
    values = np.abs(sampler.accepted(lanes))
    # The acceptance rate: six standard deviations.
    rate = float(acceptance(tables))
    assert abs(len(values) - lanes * rate) < 6 * np.sqrt(lanes * rate * (1 - rate))
    scale = tables.format.scale_bits
    edges = [round(edge * 2**scale) for edge in (0, 0.3, 0.7, 1, 1.5, 2, 2.5, 3, 3.5, 4)]
    expected = np.array([float(cell_probability(tables, low, high)) for low, high in itertools.pairwise(edges)])
    expected = np.append(expected, 1 - expected.sum()) * len(values)
    counted = np.histogram(values, [*edges, 1 << 62])[0]
    statistic = float(((counted - expected) ** 2 / expected).sum())
    # The 1 - 1e-6 quantile of chi-square with 9 degrees of freedom is 45.07.
    assert statistic < 45.07


def test_released_noise_has_the_lattices_deviation_and_no_bias() -> None:
    """Mean and variance of 400,000 releases, each within six standard errors."""
    run, _, _ = federation("dp-sgd", True, batch=60, passes=1.0)
    lattice = run.encoding.lattice(0)
    count = 400_000
    noise = lattice.decode(run.sampler.release(lattice, count)) / lattice.sigma
    assert abs(noise.mean()) < 6 / np.sqrt(count)
    # The dithers of both servers widen the law by 2 · 2 · width² / 12.
    assert abs(noise.var() - 1 - 2**-12 / 3) < 6 * np.sqrt(2 / count)


@pytest.mark.parametrize("parts", [NoiseParts("semi-honest", 0.5), NoiseParts("malicious", 1.0)])
def test_a_simulation_has_the_servers_own_parts_too(parts: NoiseParts) -> None:
    """Mean and variance of 200,000 releases within six standard errors; and algorithms are told of all of it."""
    joint, algorithm, plan = federation("dp-sgd", True, batch=60, passes=1.0)
    run = Federation(algorithm, plan, joint.model, split(records(), 3, 0), joint.mechanism, 5, parts=parts)
    lattice = run.encoding.lattice(0)
    assert lattice.parts == parts
    count = 200_000
    noise = lattice.decode(run.sampler.release(lattice, count)) / lattice.sigma
    expected = parts.released / parts.counted
    assert abs(noise.mean()) < 6 * np.sqrt(expected / count)
    assert abs(noise.var() / expected - 1 - 2**-12 / 3) < 6 * np.sqrt(2 / count)
    assert run.noise_level() == pytest.approx(joint.noise_level() * np.sqrt(expected))


def test_two_seeds_differ_and_one_seed_repeats() -> None:
    first, _, _ = federation("dp-sgd", True, batch=60, passes=2.0)
    again, _, _ = federation("dp-sgd", True, batch=60, passes=2.0)
    one = first.run().theta
    assert (one == again.run().theta).all()
    algorithm = build("dp-sgd", {"batch": 60, "passes": 2.0})
    plan = algorithm.plan(Setting(N, D, 1.0, 1e-5, 3.0))
    other = Federation(algorithm, plan, first.model, split(records(), 3, 0), first.mechanism, 6).run().theta
    assert not (one == other).all()


def test_calibration_covers_the_smallest_party() -> None:
    """Unequal parties: the noise is that of the party whose units are protected least."""
    algorithm = build("dp-sgd", {"batch": 50, "passes": 1.0})
    plan = algorithm.plan(Setting(1000, D, 1.0, 1e-5))
    equal = calibrate(plan, {"a": 500, "b": 500}, 1.0, 1e-5)
    unequal = calibrate(plan, {"a": 990, "b": 10}, 1.0, 1e-5)
    assert unequal.mechanism.noise_multiplier > 1.05 * equal.mechanism.noise_multiplier
    assert unequal.epsilon <= 1.0


def private_names() -> list[str]:
    return sorted(known())


@pytest.mark.parametrize("name", private_names())
def test_every_algorithm_plans_runs_and_resumes_from_a_checkpoint(name: str) -> None:
    """A run that is stopped and restored in every round ends where an undisturbed one ends."""
    straight, algorithm, plan = federation(name, True)
    if plan.releases > 400:
        pytest.skip("long by its theory; the short ones cover the interface")
    expected = straight.run().theta
    assert np.isfinite(expected).all()
    broken, algorithm, plan = federation(name, True)
    algorithm.begin(plan, broken.start(), broken.noise_level(), broken.public)
    for round_index in range(broken.mechanism.releases):
        state = algorithm.checkpoint()
        algorithm = build(name, {})
        assert algorithm.plan(Setting(N, D, 1.0, 1e-5, 3.0)) == plan
        algorithm.restore(plan, state)
        broken.algorithm = algorithm
        algorithm.tell(round_index, broken.round(round_index))
    assert (algorithm.result() == expected).all()
