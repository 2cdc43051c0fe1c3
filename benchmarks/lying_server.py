"""What a server that lies could cost, by how much of its own each server adds: the table of docs/privacy.md.

    python benchmarks/lying_server.py

Per run: the deviation of what is released, over that of a run without own noise at the same (ε, δ); and ε₂, with the
finite sampler's certificate of the own part. The demo's is its manifest's, the others are fixed batches without
replacement: a9a four data passes at ε = 0.2 and five at 0.5 (two gradients per drawn record), MNIST a perceptron with
32 hidden units. δ = 1e-5; certificates of the preset `high`.
"""

from dataclasses import dataclass

from parley.demo.recipe import STUDY
from parley.federation.meaning import finite_precision, servers_for
from parley.mpc.parts import OWN, NoiseParts
from parley.privacy.accountants import accountant
from parley.privacy.calibration import smallest_noise
from parley.privacy.event import Event, SampledGaussian
from parley.privacy.lying import in_words
from parley.privacy.sampling import FixedSize
from parley.privacy.worst import worst
from parley.study.manifests import Claiming

DELTA = 1e-5
PARTS = [*(NoiseParts("semi-honest", own) for own in OWN), NoiseParts("malicious", 1.0)]


@dataclass(frozen=True)
class Run:
    """A row."""

    name: str
    event: Event
    dimension: int
    epsilon: float


def fixed(name: str, records: int, batch: int, rounds: int, dimension: int, epsilon: float) -> Run:
    return Run(name, Event((SampledGaussian(FixedSize(records, batch), 1.0, rounds),)), dimension, epsilon)


def demo() -> Run:
    made = STUDY.manifest()
    (event,) = worst(made.mechanism.events(), accountant(made.guarantee.accountant)).values()
    return Run("demo, 690 patients, all in every round", event, made.longest_answer, made.guarantee.epsilon)


RUNS = [
    fixed("a9a, batch 100, 651 rounds", 32_561, 100, 651, 124, 0.2),
    fixed("a9a, batch 100, 814 rounds", 32_561, 100, 814, 124, 0.5),
    demo(),
    fixed("MNIST, batch 1,024, 200 rounds", 60_000, 1024, 200, 25_450, 1.2),
    fixed("MNIST, batch 2,048, 200 rounds", 60_000, 2048, 200, 25_450, 3.0),
]


def cell(run: Run, parts: NoiseParts) -> str:
    """ε₂ at the least noise that gives the run's (ε, δ) with these parts."""
    samples = run.dimension * run.event.count * parts.samples
    chosen = accountant("pld")
    terms = finite_precision(samples, run.epsilon, DELTA, "strips", "high")
    noise, reading = smallest_noise(Claiming(chosen, terms), run.event, run.epsilon, DELTA)
    servers = servers_for(parts, "strips", "high")
    lying = servers.epsilon_if_one_lies(run.event.with_noise(noise), run.dimension, DELTA, chosen, reading.epsilon)
    return "none" if lying is None else in_words(lying, DELTA).split()[1]


def main() -> None:
    names = [f"own {parts.own:g}" if parts.joint else "malicious" for parts in PARTS]
    print(f"| run | ε | {' | '.join(names)} |")
    print("| --- " * (2 + len(PARTS)) + "|")
    print(f"| released deviation | | {' | '.join(f'+{parts.excess - 1:.1%}' for parts in PARTS)} |")
    for run in RUNS:
        print(f"| {run.name} | {run.epsilon:g} | {' | '.join(cell(run, parts) for parts in PARTS)} |", flush=True)


if __name__ == "__main__":
    main()
