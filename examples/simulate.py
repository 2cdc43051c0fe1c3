"""Train a model on four hospitals' records at several ε, beside the same training without noise.

    python examples/simulate.py

A simulation: one process plays all parties and sees all records, so its figures are a federation's and its protection
is not. The records are the bundled, public ones.
"""

from dataclasses import replace
from pathlib import Path

from parley.demo.heart_data import HOSPITALS, hold_out_file, hospital_file
from parley.study.batch_runs import mean_of, simulate_seeds
from parley.study.run_file import read_run_file

SEEDS = 3

setup = read_run_file(Path(__file__).parent / "own-data" / "run.toml")
setup = replace(setup, train=[[hospital_file(hospital)] for hospital in HOSPITALS], test=[hold_out_file()])

for epsilon in (0.5, 1.0, 2.0):
    mean = mean_of(simulate_seeds(replace(setup, epsilon=epsilon), SEEDS, workers=1))
    print(f"epsilon {epsilon}: AUC {mean['auc']:.3f} over {SEEDS} seeds")

without = mean_of(simulate_seeds(replace(setup, noise=False), SEEDS, workers=1))
print(f"without noise: AUC {without['auc']:.3f}")
