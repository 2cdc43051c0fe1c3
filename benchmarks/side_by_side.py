"""parley beside diffprivlib and Opacus: one table, ε = 1, the code that a user writes, seconds, and quality.

    python3 -m venv /tmp/side && /tmp/side/bin/pip install -e ".[accounting]" torch==2.13.0 opacus==1.6.0 \\
        diffprivlib==0.6.6 scikit-learn==1.5.2 pandas
    /tmp/side/bin/python benchmarks/side_by_side.py choose --data DIR      # settings of the others, on public records
    /tmp/side/bin/python benchmarks/side_by_side.py compare --data DIR     # writes docs/experiments/side-by-side.json
    /tmp/side/bin/python benchmarks/side_by_side.py table                  # the page's tables, from that file

diffprivlib 0.6.6 does not load with scikit-learn 1.9. The code between `# user code` and `# end` is what is
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
DIFFPRIVLIB = {"C": (0.0001, 0.001, 0.01, 0.1, 1.0), "low": (0.0, -1.0)}
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


def choose(folder: Path, kept: dict[str, Any], once: bool) -> None:
    """The settings with the least log-loss on as many public records as each data set has, or on all there are.

    What was tried before stays in the file: take it out to try again.
    """
    public = bank(folder)
    for name, read in SETS.items():
        facts = public.share(len(read(folder).train))
        for side, grid in GRIDS.items():
            tried = kept["tried"].setdefault(str(len(facts.train)), {}).setdefault(side, [])
            for values in itertools.product(*grid.values()):
                setting = dict(zip(grid, values, strict=True))
                if any(setting == other for other, _ in tried):
                    continue
                fits = 3 if len(facts.train) < SMALL else 2  # their mean
                tried.append(
                    (setting, statistics.fmean(measured(SIDES[side], facts, setting)["log_loss"] for _ in range(fits)))
                )
                print(name, len(facts.train), side, *tried[-1], flush=True)
                if once:
                    return
            kept["settings"].setdefault(name, {})[side] = min(tried, key=lambda one: one[1])[0]
        kept["settings"][name]["opacus, counted as parley counts"] = kept["settings"][name]["opacus"]


def compare(facts: DataSet, side: str, setting: dict[str, Any], runs: list[dict[str, float]]) -> None:
    """One more fit, unless there are enough."""
    enough = 1 if side == "without privacy" else 10 if len(facts.train) < SMALL else 5
    if len(runs) < enough:
        measured(SIDES[side], facts.share(300), setting)  # imports and caches are nobody's seconds
        runs.append(measured(SIDES[side], facts, setting))
        print(facts.name, side, len(runs), {name: round(value, 3) for name, value in runs[-1].items()}, flush=True)


def table(runs: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    print("| data | side | fits | AUC | log-loss | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for name, sides in runs.items():
        for side in (side for side in SIDES if side in sides):
            shown = []
            for figure in ("auc", "log_loss"):
                values = [run[figure] for run in sides[side]]
                spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
                shown.append(f"{statistics.fmean(values):.3f}{spread}")
            seconds = statistics.median(run["cpu_seconds"] for run in sides[side])
            print(f"| {name} | {side} | {len(sides[side])} | {shown[0]} | {shown[1]} | {seconds:.1f} |")
    print("\n| side | lines |\n| --- | --- |")
    for side, code in SIDES.items():
        if count := lines(code):
            print(f"| {side} | {count} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "compare", "table"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--side", action="append", choices=list(SIDES), help="only these")
    parser.add_argument("--set", action="append", choices=list(SETS), help="only these")
    parser.add_argument("--once", action="store_true", help="one more setting, or one more fit of each")
    given = parser.parse_args()
    kept: dict[str, Any] = (
        json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"tried": {}, "settings": {}, "runs": {}}
    )
    if given.what == "choose":
        choose(given.data, kept, given.once)
    elif given.what == "compare":
        for name in given.set or SETS:
            facts = SETS[name](given.data)
            for side in given.side or SIDES:
                found = kept["runs"].setdefault(name, {}).setdefault(side, [])
                for _ in range(1 if given.once else 20):
                    compare(facts, side, kept["settings"][name].get(side, {}), found)
                    OUTPUT.write_text(json.dumps(kept, indent=1) + "\n")
    else:
        table(kept["runs"])
    if given.what != "table":
        OUTPUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
