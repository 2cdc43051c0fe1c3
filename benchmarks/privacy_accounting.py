"""The accountants' table and the seconds per calibration.

    python benchmarks/privacy_accounting.py                 # a9a's six settings
    python benchmarks/privacy_accounting.py --records 49990 # the same on the size of ijcnn1
    python benchmarks/privacy_accounting.py --timing        # seconds per calibration, T up to 100,000

Settings: four data passes at ε = 0.2 and five at 0.5, two gradients per drawn record, δ = 1e-5. The `lower` column
takes a minute; it is no guarantee, but what no guarantee can go below.
"""

import argparse
import statistics
import time

from parley.privacy.accountants import Accountant, accountant
from parley.privacy.calibration import largest_count, smallest_noise
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.paper_accountant import PaperAccountant
from parley.privacy.sampling import FixedSize, Poisson, Sampler

DELTA = 1e-5
REPEATS = 5


def event(sampler: Sampler, rounds: int) -> Event:
    """`rounds` releases at a noise that calibration replaces."""
    return Event((SampledGaussian(sampler, 1.0, rounds),))


def table(records: int) -> None:
    """σ' by every accountant, over the replace-one sensitivity."""
    print("| ε, b, rounds | paper, conditions ignored | paper's least ε | rdp | pld | lower | pld, Poisson |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    paper = PaperAccountant(ignore_conditions=True)
    for epsilon, passes in ((0.2, 4), (0.5, 5)):
        for batch in (50, 100, 200):
            rounds = round(passes * records / (2 * batch))
            fixed = event(FixedSize(records, batch), rounds)
            poisson = event(Poisson.with_overflow(records, batch, rounds, 1e-3 * DELTA), rounds)
            figures = [
                smallest_noise(paper, fixed, epsilon, DELTA)[0],
                paper.smallest_certifiable(fixed, DELTA),
                *(smallest_noise(accountant(name), fixed, epsilon, DELTA)[0] for name in ("rdp", "pld", "lower")),
                smallest_noise(accountant("pld"), poisson, epsilon, DELTA)[0],
            ]
            cells = " | ".join(f"{figure:.3g}" for figure in figures)
            print(f"| {epsilon}, {batch}, {rounds} | {cells} |", flush=True)


def timing(records: int) -> None:
    """Seconds per calibration, median of fresh ones: each at another ε, so that no cache answers."""
    print("| question | accountant | rounds | seconds |")
    print("| --- | --- | --- | --- |")
    for rounds in (1, 651, 10_000, 100_000):
        for name in ("pld", "rdp"):
            seconds = [_noise_seconds(accountant(name), records, rounds, 0.2 + 0.01 * i) for i in range(REPEATS)]
            print(f"| smallest noise | {name} | {rounds} | {statistics.median(seconds):.2f} |", flush=True)
    seconds = [_count_seconds(records, 1.69 + 0.01 * i) for i in range(REPEATS)]
    print(f"| largest T at σ' ≈ 1.7 | pld | | {statistics.median(seconds):.2f} |", flush=True)


def _noise_seconds(chosen: Accountant, records: int, rounds: int, epsilon: float) -> float:
    started = time.perf_counter()
    smallest_noise(chosen, event(FixedSize(records, 100), rounds), epsilon, DELTA)
    return time.perf_counter() - started


def _count_seconds(records: int, noise: float) -> float:
    started = time.perf_counter()
    one = Event((SampledGaussian(FixedSize(records, 100), noise, 1),))
    largest_count(accountant("pld"), one, 0.2, DELTA)
    return time.perf_counter() - started


def main() -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=32561)
    parser.add_argument("--timing", action="store_true")
    options = parser.parse_args()
    timing(options.records) if options.timing else table(options.records)


if __name__ == "__main__":
    main()
