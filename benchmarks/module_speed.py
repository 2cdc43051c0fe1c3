"""Records per second of a module's exact private gradients, beside plain torch gradients and Opacus's hooks.

    python3 -m venv /tmp/beside && /tmp/beside/bin/pip install -e ".[torch]" opacus==1.6.0
    OMP_NUM_THREADS=1 /tmp/beside/bin/python benchmarks/module_speed.py          # without Opacus where it is absent

One thread; CPU seconds, the least of many turns that the sides take one after the other. Queries of two points are what
DDP-SRM asks of each record: clip(g(θ)) and clip(g(θ) − g(θ′)). "plain" is what torch takes for the two summed gradients
without clip, in its best batch; "plain by pixel" is the same with channels last, as parley's route lays pictures by
itself. Opacus's hooks make the same two clipped sums in float32. Memory is what each side's process grows by at its
peak, by /proc, in a process of its own.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from parley.learning.encoding import Scale, fraction_bits
from parley.learning.rows import DenseRows
from parley.models.module import TorchModel
from parley.models.module_spec import ModuleSpec
from parley.mpc.ring import Lattice
from parley.networks import cifar, mnist
from parley.privacy.clipping import Clip, GradientClip, MomentumClip

NETWORKS: dict[str, tuple[str, Callable[[], Any], tuple[int, ...]]] = {
    "MNIST CNN": ("torch:parley.networks.mnist:cnn", mnist.cnn, (1, 28, 28)),
    "CNN5": ("torch:parley.networks.cifar:cnn5", cifar.cnn5, (3, 32, 32)),
    "perceptron": ("torch:parley.networks.mnist:perceptron", mnist.perceptron, (784,)),
}
CLIPS: dict[int, Clip] = {1: GradientClip(1.0), 2: MomentumClip(1.0, 0.1, 0.3)}
RECORDS, CLASSES, BITS, NOISE_BITS = 1024, 10, 8, 41
PLAIN_BATCHES, OPACUS_BATCHES = (64, 128, 256), (32, 64, 128)
Pass = Callable[[], Any]


def records(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Made up: bytes and classes."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (RECORDS, int(np.prod(shape)))), rng.integers(0, CLASSES, RECORDS).astype(np.float64)


def private(name: str, points: int, chunk: int | None = None, dtype: str = "") -> tuple[str, Pass]:
    """parley: a party's own path from rows to exact integers."""
    kind, _, shape = NETWORKS[name]
    spec = ModuleSpec(kind, {}, shape, "cross-entropy", reach=((0.0, 1.0),))
    model = TorchModel.open(spec, CLASSES, chunk=chunk)
    values, targets = records(shape)
    rows = DenseRows.of(values, BITS)
    theta = model.initial(np.arange(4, dtype=np.uint64))
    thetas = (theta, theta + np.random.default_rng(1).normal(0, 1e-3, len(theta)))[:points]
    terms = CLIPS[points].terms(1)
    sigma = 2 * 1.3 * terms.bound
    lattice = Lattice(sigma, fraction_bits(RECORDS, terms.bound, sigma, NOISE_BITS, model.largest_limit), NOISE_BITS)
    scale, everyone, present = Scale.of(lattice, terms.bound, RECORDS), np.arange(RECORDS), np.ones(RECORDS, bool)

    def run() -> None:
        model.contribution(rows.take(everyone), targets, present, thetas, terms, scale)

    return f"parley, {model.route}, chunk {model.chunk}", run


def floats(name: str, points: int) -> tuple[Any, torch.Tensor, torch.Tensor, list[list[torch.Tensor]]]:
    """The network, the records, and its parameters at each point."""
    _, make, shape = NETWORKS[name]
    values, targets = records(shape)
    net = make()
    inputs = torch.from_numpy((values / 2**BITS).astype(np.float32)).view(-1, *shape)
    first = [each.detach().clone() for each in net.parameters()]
    second = [each + 1e-3 * torch.randn_like(each) for each in first]
    return net, inputs, torch.from_numpy(targets.astype(np.int64)), [first, second][:points]


def plain(name: str, points: int, batch: int, by_pixel: bool = False) -> Pass:
    """Summed gradients at each point, no clip: what any training takes; or with torch told to lay pictures by pixel."""
    net, inputs, targets, thetas = floats(name, points)
    if by_pixel and inputs.dim() == 4:
        net, inputs = net.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)

    def run() -> None:
        for x, y in zip(inputs.split(batch), targets.split(batch), strict=True):
            for theta in thetas:
                load(net, theta)
                net.zero_grad()
                F.cross_entropy(net(x), y, reduction="sum").backward()

    return run


def hooks(name: str, points: int, batch: int) -> Pass:
    """Opacus: each record's gradient by hooks, clipped and summed in float32."""
    from opacus.grad_sample import GradSampleModule

    net, inputs, targets, thetas = floats(name, points)
    module = GradSampleModule(net)
    terms = CLIPS[points].terms(1)

    def sampled(x: torch.Tensor, y: torch.Tensor, theta: list[torch.Tensor]) -> list[torch.Tensor]:
        load(module, theta)
        module.zero_grad()
        F.cross_entropy(module(x), y, reduction="sum").backward()
        found = [each.grad_sample.flatten(1) for each in module.parameters()]
        for each in module.parameters():
            each.grad_sample = None
        return found

    def clipped(rows: list[torch.Tensor], norm: float, weight: float) -> list[torch.Tensor]:
        lengths = torch.stack([each.norm(dim=1) for each in rows], 1).norm(dim=1)
        factors = weight * torch.clamp(norm / (lengths + 1e-6), max=1)
        return [factors @ each for each in rows]

    def run() -> None:
        for x, y in zip(inputs.split(batch), targets.split(batch), strict=True):
            fresh = sampled(x, y, thetas[0])
            clipped(fresh, terms.gradient_norm, terms.gradient_weight)
            if points == 2:
                before = sampled(x, y, thetas[1])
                moved = [new - old for new, old in zip(fresh, before, strict=True)]
                clipped(moved, terms.difference_norm, terms.difference_weight)

    return run


def load(net: Any, theta: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for each, value in zip(net.parameters(), theta, strict=True):
            each.copy_(value)


def sides(name: str, points: int, opacus: bool, chunks: list[int | None]) -> dict[str, Pass]:
    found = dict(private(name, points, chunk) for chunk in chunks)
    found |= {f"plain, batch {batch}": plain(name, points, batch) for batch in PLAIN_BATCHES}
    found |= {f"plain by pixel, batch {batch}": plain(name, points, batch, True) for batch in PLAIN_BATCHES}
    if opacus:
        found |= {f"Opacus, batch {batch}": hooks(name, points, batch) for batch in OPACUS_BATCHES}
    return found


def speeds(name: str, points: int, seconds: float, opacus: bool, chunks: list[int | None]) -> dict[str, float]:
    """Of each side, by its best turn."""
    runs = sides(name, points, opacus, chunks)
    least = dict.fromkeys(runs, float("inf"))
    end = time.process_time() + seconds * len(runs)
    while time.process_time() < end:
        for side, run in runs.items():
            start = time.process_time()
            run()
            least[side] = min(least[side], time.process_time() - start)
    return {side: RECORDS / each for side, each in least.items()}


def grown(name: str, side: str) -> float:
    """MiB that this process grows by while it answers queries of two points."""
    makers: dict[str, Callable[[], Pass]] = {
        "parley": lambda: private(name, 2)[1],
        "plain": lambda: plain(name, 2, PLAIN_BATCHES[-1]),
        "Opacus": lambda: hooks(name, 2, OPACUS_BATCHES[1]),
    }
    run = makers[side]()
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten: `model check` had its own
    before = resident("VmRSS")
    for _ in range(3):
        run()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def measured(name: str, seconds: float, chunks: list[int | None]) -> dict[str, Any]:
    """A row of the table: the best of each side."""
    opacus = importlib.util.find_spec("opacus") is not None
    found: dict[str, Any] = {"network": name}
    for points in (1, 2):
        each = speeds(name, points, seconds, opacus, chunks)
        best = {side.partition(",")[0]: 0.0 for side in each}
        for side, speed in each.items():
            best[side.partition(",")[0]] = max(best[side.partition(",")[0]], speed)
        found[f"points {points}"] = {"all": each, "ratio": {k: best["parley"] / v for k, v in best.items()}}
    for side in ("parley", "plain", *(["Opacus"] if opacus else [])):
        command = [sys.executable, __file__, "--grown", side, "--network", name]
        found[f"MiB {side}"] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, action="append")
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU seconds of each side and query")
    parser.add_argument("--chunk", type=int, action="append", help="instead of the model's own")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--grown", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    names = chosen.network or list(NETWORKS)
    if chosen.grown:
        print(grown(names[0], chosen.grown))
        return
    for name in names:
        found = measured(name, chosen.seconds, chosen.chunk or [None])
        if chosen.json:
            print(json.dumps(found))
            continue
        print(f"\n{name}")
        for points in (1, 2):
            for side, speed in found[f"points {points}"]["all"].items():
                print(f"  {points} point{'s' * (points - 1)}  {side:28} {speed:8,.0f} records/s")
            ratios = found[f"points {points}"]["ratio"].items()
            print(
                "           parley over "
                + ", ".join(f"{side} {ratio:.2f}" for side, ratio in ratios if side != "parley")
            )
        print("  peak MiB: " + ", ".join(f"{k[4:]} {v:.0f}" for k, v in found.items() if k.startswith("MiB")))


if __name__ == "__main__":
    main()
