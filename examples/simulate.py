"""Train a model on four hospitals' records at several ε, beside the same training without noise.

    python examples/simulate.py

A simulation: this process plays all parties and sees all records, so its figures are for whoever runs it. The model
that `save` writes may be passed on. The records are the bundled, public ones.
"""

from parley import study
from parley.demo.heart_data import HOSPITALS, hold_out_file, hospital_file

SEEDS = 3

wanted = study.read("examples/own-data/study.toml")
files = {hospital: hospital_file(hospital) for hospital in HOSPITALS}

for epsilon in (0.5, 1.0, 2.0):
    result = wanted.replaced(epsilon=epsilon).simulate(files, test=hold_out_file(), seeds=SEEDS)
    print(f"epsilon {epsilon}: AUC {result.quality['auc']}")

print(f"without noise: AUC {result.without_privacy['auc']:.3f}")
