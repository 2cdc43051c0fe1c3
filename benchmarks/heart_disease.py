"""AUC against epsilon on the four hospitals' records, and how the demonstration's parameters were chosen.

    python benchmarks/heart_disease.py choose           # on made-up patients: reads no record
    python benchmarks/heart_disease.py curve            # writes docs/experiments/heart-disease.{json,png}
    python benchmarks/heart_disease.py curve --method auto      # one method's rows anew, the others as they are
    python benchmarks/heart_disease.py draw             # the picture again, from the JSON file

They are simulations of the federation in one process: the parties' and coordinator's code, the servers' law of noise.
`choose` makes up patients from the public schema alone (numbers around its centres, categories at random, a quarter not
measured, effects drawn anew for each of ten made-up diseases), so what it picks has seen no patient.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.algorithms.registry import build_algorithm, setting_of
from parley.algorithms.regularisers import Regulariser
from parley.demo.heart_data import hold_out_file
from parley.demo.recipe import HOSPITALS, STUDY
from parley.learning.columns import Category
from parley.learning.records import Records, load
from parley.learning.rows import DenseRows
from parley.models.registry import build_model
from parley.research.comparison import compare, fit_logistic, score
from parley.research.comparison import dense as matrix
from parley.study.simulation import Federation, calibrate

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
OUTPUT = Path(__file__).parent.parent / "docs" / "experiments"
ALGORITHM, MODEL, SIZES, DELTA = STUDY.algorithm, STUDY.model, STUDY.parties, STUDY.delta
EVERYONE = sum(SIZES.values())
WITHIN = 0.03


def gd(**changes: Any) -> dict[str, Any]:
    return {"name": "dp-gd", "steps_taken": 10, "clip_norm": 1.0, "step": 4.0, "decay": "linear", **changes}


METHODS: dict[str, dict[str, Any]] = {
    "ddp-srm (the demo's)": ALGORITHM,
    "dp-gd": gd(),
    "dp-gd, momentum, averaged": gd(momentum=0.5, output={"rule": "average", "tail": 0.5}),
    "auto": {"name": "auto"},
    "output perturbation": {"name": "output-perturbation", "iterations": 30, "strength": 0.1},
}


def made_up(seed: int) -> tuple[dict[str, Records], Records]:
    """Four hospitals and a hold-out of patients who do not exist."""
    rng = np.random.default_rng(seed)
    described = STUDY.schema
    total = EVERYONE + 2000
    parts: list[Any] = []
    for feature in described.features:  # type: ignore[union-attr]
        measured = rng.random(total) > 0.25
        if isinstance(feature, Category):
            hot = np.eye(feature.width)[rng.integers(0, feature.width, total)]
            parts.append(hot * measured[:, None])
        elif feature.high - feature.low == 2 * feature.spread:  # no and yes
            parts.append((rng.choice([-1.0, 1.0], total) * measured)[:, None])
        else:
            low, high = ((each - feature.centre) / feature.spread for each in (feature.low, feature.high))
            parts.append((np.clip(rng.normal(0, 1, total), low, high) * measured)[:, None])
    rows = np.concatenate([*parts, np.ones((total, 1))], axis=1)
    effects = rng.normal(0, 0.6, rows.shape[1])
    ill = (rng.random(total) < 1 / (1 + np.exp(-(rows @ effects)))).astype(float)
    ends = np.cumsum([0, *SIZES.values(), 2000])
    scaled = np.rint(rows * 2.0**described.fraction_bits)
    records = [
        Records(DenseRows.of(scaled[start:end], described.fraction_bits, described.integer_reach), ill[start:end])
        for start, end in itertools.pairwise(ends)
    ]
    return dict(zip(SIZES, records, strict=False)), records[-1]


def aucs(
    algorithm: dict[str, Any], epsilon: float, problems: list[tuple[dict[str, Records], Records]], seeds: range
) -> Iterator[tuple[float, float]]:
    """AUC and accuracy of every problem and seed."""
    described = STUDY.schema
    model = build_model(MODEL, described)
    setting = setting_of(sum(SIZES.values()), model, epsilon, DELTA, described, "logistic")
    built = build_algorithm(algorithm, Regulariser())
    mechanism = calibrate(built.plan(setting), SIZES, epsilon, DELTA).mechanism
    for parties, hold_out in problems:
        for seed in seeds:
            stepping = replace(built)
            plan = stepping.plan(setting)
            theta = Federation(stepping, plan, model, parties, mechanism, seed).run().theta
            found = score("federated", EVERYONE, theta, hold_out)
            yield found.auc, found.accuracy


def choose() -> None:
    """Mean AUC lost against the pooled fit over ten made-up diseases at epsilon 1, best first."""
    problems = [made_up(seed) for seed in range(10)]
    best = statistics.fmean(
        score(
            "pooled",
            EVERYONE,
            fit_logistic(
                np.concatenate([matrix(each) for each in parties.values()]),
                np.concatenate([each.targets for each in parties.values()]),
            ),
            hold_out,
        ).auc
        for parties, hold_out in problems
    )
    print(f"pooled {best:.4f}")
    found = []
    grid = itertools.product((5, 10, 20), (0.5, 1.0, 2.0), (0.125, 0.25, 0.5), (0.5, 0.8, 0.9), (1.0, 2.0, 4.0))
    for steps, norm, share, gamma, step in grid:
        algorithm = {
            **ALGORITHM,
            "gradient_norm": norm,
            "difference_norm": share * norm,
            "gamma": gamma,
            "passes": 2.0 * steps - 1,
            "step": step,
        }
        mean = statistics.fmean(auc for auc, _ in aucs(algorithm, 1.0, problems, range(2)))
        found.append((best - mean, steps, norm, share * norm, gamma, step))
    print("lost     releases C1   C2    gamma step")
    for lost, steps, norm, difference, gamma, step in sorted(found)[:25]:
        print(f"{lost:.4f} {steps:8} {norm:5} {difference:6} {gamma:5} {step:5}")


def curve(seeds: int, only: str | None) -> None:
    """Every method over epsilon on the hospitals' records, or one of them beside the others' rows of before."""
    described = STUDY.schema
    parties = {each.name: load([each.data_file], described) for each in HOSPITALS}
    hold_out = load([hold_out_file()], described)
    reference = compare(np.zeros(described.dimension), parties, hold_out)
    path = OUTPUT / "heart-disease.json"
    kept = [row for row in json.loads(path.read_text())["rows"] if row["method"] != only] if only else []
    rows = []
    for name in METHODS:
        if only and name != only:
            rows += [row for row in kept if row["method"] == name]
            continue
        for epsilon in EPSILONS:
            found = list(aucs(METHODS[name], epsilon, [(parties, hold_out)], range(seeds)))
            values = [auc for auc, _ in found]
            rows.append(
                {
                    "method": name,
                    "epsilon": epsilon,
                    "delta": DELTA,
                    "seeds": seeds,
                    "auc": statistics.fmean(values),
                    "auc_std": statistics.stdev(values),
                    "auc_worst": min(values),
                    "accuracy": statistics.fmean(accuracy for _, accuracy in found),
                    "within": sum(auc >= reference.pooled_auc - WITHIN for auc in values) / seeds,
                }
            )
            print("{method}: epsilon {epsilon} auc {auc:.4f} ± {auc_std:.4f}, within {within:.0%}".format(**rows[-1]))
    body = {**reference.as_json(), "hold_out": reference.hold_out, "rows": rows}
    del body["auc"], body["accuracy"]  # of the zero model
    path.write_text(json.dumps(body, indent=1) + "\n")
    draw(body, OUTPUT / "heart-disease.png")


def draw(body: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.2), layout="constrained")
    for name in METHODS:
        if name == "output perturbation":  # no better than chance, far below the others
            continue
        rows = [row for row in body["rows"] if row["method"] == name]
        means = np.array([row["auc"] for row in rows])
        deviations = np.array([row["auc_std"] for row in rows])
        [line] = axes.plot([row["epsilon"] for row in rows], means, marker="o", markersize=3, label=name)
        axes.fill_between(
            [row["epsilon"] for row in rows], means - deviations, means + deviations, alpha=0.12, color=line.get_color()
        )
    pooled = body["pooled_auc"]
    axes.axhline(pooled, color="black", linewidth=1)
    axes.annotate("pooled, no privacy", (EPSILONS[0], pooled), xytext=(0, 3), textcoords="offset points", fontsize=8)
    axes.axhspan(pooled - WITHIN, pooled, color="black", alpha=0.06)
    alone = [each["auc"] for each in body["alone"]]
    axes.axhspan(min(alone), max(alone), color="tab:brown", alpha=0.15, label="one hospital alone, no privacy")
    axes.set(xscale="log", xlabel="ε at δ = 1e-5", ylabel="AUC on the public hold-out", ylim=(0.6, 0.92))
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("choose", "curve", "draw"))
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--method", choices=METHODS, help="curve: only this one")
    wanted = parser.parse_args()
    if wanted.what == "choose":
        choose()
    elif wanted.what == "curve":
        curve(wanted.seeds, wanted.method)
    else:
        draw(json.loads((OUTPUT / "heart-disease.json").read_text()), OUTPUT / "heart-disease.png")


if __name__ == "__main__":
    main()
