"""parley beside diffprivlib and Opacus: one table, ε = 1, the code that a user writes, seconds, and quality.

    python3 -m venv /tmp/side && /tmp/side/bin/pip install -e ".[accounting,sklearn]" torch==2.13.0 opacus==1.6.0 \\
        diffprivlib==0.6.6 scikit-learn==1.5.2 pandas
    /tmp/side/bin/python benchmarks/side_by_side.py choose --data DIR      # settings of the others, on public records
    /tmp/side/bin/python benchmarks/side_by_side.py compare --data DIR     # writes docs/experiments/side-by-side.json
    /tmp/side/bin/python benchmarks/side_by_side.py table                  # the page's tables, from that file

scikit-learn is the newest that diffprivlib 0.6.6 works with. The code between `# user code` and `# end` is what is
counted as lines of user code. All sides get the same frames and the same public facts (side_by_side_data.py), and
nobody looks at the private records to choose a setting: `choose` tries settings of the other two on as many records of
bank-marketing as the data set has. parley has `auto`, which leaves nothing to choose.
"""

import argparse
import inspect
import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from side_by_side_data import DataSet, adult, bank, diabetes, loans

EPSILON, DELTA = 1.0, 1e-5
SMALL = 5_000
"""Records below which one fit says little: then fits are repeated more often."""
OUTPUT = Path(__file__).parent.parent / "docs" / "experiments" / "side-by-side.json"
SETS = {"adult": adult, "diabetes-130": diabetes, "sba-loans": loans}
OPACUS = {"lr": (0.1, 0.3, 1.0), "share": (0.02, 0.2), "epochs": (10, 30), "clip": (1.0, 4.0)}
DIFFPRIVLIB = {"C": (0.001, 0.01, 0.1, 1.0), "low": (0.0, -1.0)}
Side = Callable[..., np.ndarray]


def with_parley(facts: DataSet, epsilon: float, **_: Any) -> np.ndarray:
    # user code
    from parley.study import PrivateClassifier

    features = [
        {"name": name, "low": low, "high": high, "missing": "centre"} for name, (low, high) in facts.numbers.items()
    ]
    features += [
        {"kind": "category", "name": name, "categories": words, "missing": "zero", "other": "zero"}
        for name, words in facts.categories.items()
    ]
    model = PrivateClassifier(epsilon=epsilon, delta=DELTA, schema={"features": features}, classes=[False, True])
    model.fit(facts.train, facts.train[facts.target].astype(str).isin(facts.positive))
    return model.predict_proba(facts.test)[:, 1]
    # end


def with_parley_over_four(facts: DataSet, epsilon: float, **_: Any) -> np.ndarray:
    """As a federation of four parties would train, which nobody's server could look into."""
    # user code
    from parley.study import Study

    features = [
        {"name": name, "low": low, "high": high, "missing": "centre"} for name, (low, high) in facts.numbers.items()
    ]
    features += [
        {"kind": "category", "name": name, "categories": words, "missing": "zero", "other": "zero"}
        for name, words in facts.categories.items()
    ]
    positive, negative = list(facts.positive), list(facts.negative)
    target = {"name": facts.target, "kind": "binary", "positive": positive, "negative": negative}
    study = Study({"intercept": True, "target": target, "features": features}, epsilon=epsilon, delta=DELTA)
    parties = {f"party-{place + 1}": facts.train.iloc[place::4] for place in range(4)}
    return study.simulate(parties, test=facts.test, seeds=1).predict_proba(facts.test)[:, 1]
    # end


def with_diffprivlib(facts: DataSet, epsilon: float, C: float = 1.0, low: float = 0.0) -> np.ndarray:
    # user code
    import numpy as np
    import pandas as pd
    from diffprivlib.models import LogisticRegression
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    bounds = pd.DataFrame(facts.numbers, index=["low", "high"])

    def scaled(frame: pd.DataFrame) -> pd.DataFrame:
        cut = frame.fillna(bounds.mean()).clip(bounds.loc["low"], bounds.loc["high"], axis=1)
        return low + (1 - low) * (cut - bounds.loc["low"]) / (bounds.loc["high"] - bounds.loc["low"])

    def words(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.astype(str)

    encoder = OneHotEncoder(categories=list(facts.categories.values()), handle_unknown="ignore", sparse_output=False)
    model = make_pipeline(
        make_column_transformer(
            (FunctionTransformer(scaled), list(facts.numbers)),
            (make_pipeline(FunctionTransformer(words), encoder), list(facts.categories)),
        ),
        LogisticRegression(
            epsilon=epsilon, data_norm=np.sqrt(len(facts.numbers) + len(facts.categories)), C=C, max_iter=1000
        ),
    )
    model.fit(facts.train, facts.train[facts.target].astype(str).isin(facts.positive))
    return model.predict_proba(facts.test)[:, 1]
    # end


def with_opacus(
    facts: DataSet,
    epsilon: float,
    lr: float = 1.0,
    share: float = 0.1,
    epochs: int = 30,
    clip: float = 1.0,
    delta: float = DELTA,
) -> np.ndarray:
    # user code
    import numpy as np
    import pandas as pd
    import torch
    from opacus import PrivacyEngine
    from torch.nn.functional import binary_cross_entropy_with_logits
    from torch.utils.data import DataLoader, TensorDataset

    bounds = pd.DataFrame(facts.numbers, index=["low", "high"])

    def encoded(frame: pd.DataFrame) -> torch.Tensor:
        numbers = frame[list(facts.numbers)]
        cut = numbers.fillna(bounds.mean()).clip(bounds.loc["low"], bounds.loc["high"], axis=1)
        columns = [2 * (cut - bounds.loc["low"]) / (bounds.loc["high"] - bounds.loc["low"]) - 1]
        for name, words in facts.categories.items():
            columns.append(pd.get_dummies(pd.Categorical(frame[name].astype(str), categories=words)))
        return torch.tensor(np.hstack(columns), dtype=torch.float32)

    inputs = encoded(facts.train)
    labels = torch.tensor(facts.train[facts.target].astype(str).isin(facts.positive).to_numpy(), dtype=torch.float32)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=int(share * len(inputs)))
    model = torch.nn.Linear(inputs.shape[1], 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=delta,
        epochs=epochs,
        max_grad_norm=clip,
    )
    for _ in range(epochs):
        for batch, wanted in loader:
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(batch).squeeze(1), wanted).backward()
            optimizer.step()
    with torch.no_grad():
        return torch.sigmoid(model(encoded(facts.test))).squeeze(1).numpy()
    # end


def with_opacus_for_replaced_records(facts: DataSet, epsilon: float, **setting: Any) -> np.ndarray:
    """(ε/2, δ/(1 + e^(ε/2))) against adding or removing a record gives (ε, δ) against replacing one."""
    return with_opacus(facts, epsilon / 2, delta=DELTA / (1 + np.exp(epsilon / 2)), **setting)


def without_privacy(facts: DataSet, epsilon: float, **_: Any) -> np.ndarray:
    """scikit-learn on the same columns, for comparison."""
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    def encoded(frame: pd.DataFrame) -> np.ndarray:
        columns = []
        for name, (low, high) in facts.numbers.items():
            cut = frame[name].fillna((low + high) / 2).clip(low, high).to_numpy(dtype=float)[:, None]
            columns.append(2 * (cut - low) / (high - low) - 1)
        for name, words in facts.categories.items():
            columns.append(
                pd.get_dummies(pd.Categorical(frame[name].astype(str), categories=words)).to_numpy(dtype=float)
            )
        return np.hstack(columns)

    model = LogisticRegression(max_iter=1000).fit(encoded(facts.train), answers(facts, facts.train))
    return model.predict_proba(encoded(facts.test))[:, 1]


SIDES: dict[str, Side] = {
    "parley": with_parley,
    "parley, four parties": with_parley_over_four,
    "diffprivlib": with_diffprivlib,
    "opacus": with_opacus,
    "opacus, counted as parley counts": with_opacus_for_replaced_records,
    "without privacy": without_privacy,
}
GRIDS = {"diffprivlib": DIFFPRIVLIB, "opacus": OPACUS}


def answers(facts: DataSet, frame: Any) -> np.ndarray:
    return frame[facts.target].astype(str).isin(facts.positive).to_numpy()


def lines(side: Side) -> int:
    """Of user code: not empty, and no comment."""
    text = inspect.getsource(side)
    if "# user code" not in text:
        return 0
    between = text.split("# user code\n")[1].split("# end\n")[0].splitlines()
    return sum(1 for line in between if line.strip() and not line.strip().startswith("#"))


def measured(side: Side, facts: DataSet, setting: dict[str, Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = side(facts, EPSILON, **setting)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    wanted = answers(facts, facts.test)
    loss = log_loss(wanted, np.clip(found.astype(float), 1e-15, 1 - 1e-15))
    return {"auc": float(roc_auc_score(wanted, found)), "log_loss": float(loss), "seconds": wall, "cpu_seconds": cpu}


def choose(folder: Path, chosen: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings with the least log-loss on as many public records as each data set has, or on all there are.

    What was chosen before stays: take it out of the file to choose again.
    """
    public = bank(folder)
    for name, read in SETS.items():
        facts = public.share(len(read(folder).train))
        same = [other for other in chosen.values() if other["records"] == len(facts.train)]
        chosen.setdefault(name, same[0] if same else {"records": len(facts.train)})
        for side, grid in GRIDS.items():
            if side not in chosen[name]:
                chosen[name][side] = best(side, grid, facts)
        chosen[name]["opacus, counted as parley counts"] = chosen[name]["opacus"]
    return chosen


def best(side: str, grid: dict[str, tuple[float, ...]], facts: DataSet) -> dict[str, float]:
    """Mean of several fits each."""
    tried = []
    for values in itertools.product(*grid.values()):
        setting, fits = dict(zip(grid, values, strict=True)), 3 if len(facts.train) < SMALL else 2
        loss = statistics.fmean(measured(SIDES[side], facts, setting)["log_loss"] for _ in range(fits))
        tried.append((loss, setting))
        print(len(facts.train), side, setting, round(loss, 4), flush=True)
    return min(tried, key=lambda one: one[0])[1]


def compare(
    folder: Path, chosen: dict[str, dict[str, dict[str, Any]]], sets: list[str], sides: list[str]
) -> list[dict[str, Any]]:
    rows = []
    for name in sets:
        facts = SETS[name](folder)
        measured(SIDES[sides[0]], facts.share(500), {})  # imports and caches are nobody's seconds
        for side in sides:
            setting = chosen[name].get(side, {})
            times = 1 if side == "without privacy" else 20 if len(facts.train) < SMALL else 5
            runs = [measured(SIDES[side], facts, setting) for _ in range(times)]
            row = {
                "data": name,
                "records": len(facts.train),
                "side": side,
                "lines": lines(SIDES[side]),
                "setting": setting,
            }
            for figure in runs[0]:
                values = [run[figure] for run in runs]
                row[figure] = statistics.fmean(values) if figure in ("auc", "log_loss") else statistics.median(values)
                row[f"{figure}_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
            rows.append({**row, "times": len(runs)})
            print(json.dumps(row), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> None:
    print("| data | records | side | AUC | log-loss | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        spread = {
            figure: f" ± {row[f'{figure}_std']:.3f}" if row["times"] > 1 else "" for figure in ("auc", "log_loss")
        }
        print(
            f"| {row['data']} | {row['records']:,} | {row['side']} | {row['auc']:.3f}{spread['auc']} | "
            f"{row['log_loss']:.3f}{spread['log_loss']} | {row['cpu_seconds']:.1f} |"
        )
    counted = {row["side"]: row["lines"] for row in rows if row["lines"]}
    print("\n| side | lines |\n| --- | --- |")
    for side, count in counted.items():
        print(f"| {side} | {count} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "compare", "table"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--side", action="append", choices=list(SIDES), help="only these; the others' rows stay")
    parser.add_argument("--set", action="append", choices=list(SETS), help="only these; the others' rows stay")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"settings": {}, "rows": []}
    if given.what == "choose":
        kept["settings"] = choose(given.data, kept["settings"])
    elif given.what == "compare":
        sets, sides = given.set or list(SETS), given.side or list(SIDES)
        rows = compare(given.data, kept["settings"], sets, sides)
        rows += [row for row in kept["rows"] if row["side"] not in sides or row["data"] not in sets]
        kept["rows"] = sorted(rows, key=lambda row: (list(SETS).index(row["data"]), list(SIDES).index(row["side"])))
    if given.what == "table":
        table(kept["rows"])
    else:
        OUTPUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
