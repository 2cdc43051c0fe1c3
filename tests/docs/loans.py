"""A table like the README's, for where the real one is not: loans with words, gaps, and words that no codebook has."""

import csv
from pathlib import Path

import numpy as np

from tests.docs.pages import ROOT

REAL = ROOT.parent / "shared" / "data" / "sba-loans" / "SBAcase.11.13.17.csv.xz"
"""The supplement "SBA Case" of Li, Mickel and Taylor (2018)."""
COLUMNS = [
    "Selected",
    "NoEmp",
    "CreateJob",
    "RetainedJob",
    "DisbursementGross",
    "SBA_Appv",
    "NewExist",
    "UrbanRural",
    "RevLineCr",
    "LowDoc",
    "RealEstate",
    "BankState",
    "Default",
]


def made_up_loans(path: Path | str, count: int) -> None:
    """Charged off more often where they are large, unsecured and of small firms."""
    draw = np.random.default_rng(1)
    with Path(path).open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for _ in range(count):
            staff, gross = int(draw.geometric(0.2)), int(draw.lognormal(11, 1))
            secured, approved = int(draw.random() < 0.3), round(gross * draw.choice([0.5, 0.75, 0.85, 0.9]))
            line = draw.choice(["Y", "N", "0", "T", ""], p=[0.35, 0.27, 0.35, 0.02, 0.01])
            papers = draw.choice(["N", "Y", "S", "A", "", "0"], p=[0.95, 0.03, 0.01, 0.004, 0.003, 0.003])
            chance = 1 / (1 + np.exp(0.7 + 2.5 * secured + 0.05 * staff - gross / 400_000 - (line == "Y")))
            bad, selected = int(draw.random() < chance), int(draw.random() < 0.5)
            new, place = draw.choice(["1", "2", ""], p=[0.8, 0.195, 0.005]), draw.choice(["0", "1", "2"])
            state = draw.choice(["CA", "NC", "SD", ""], p=[0.5, 0.3, 0.19, 0.01])
            jobs = [int(draw.poisson(1)), int(draw.poisson(staff))]
            table.writerow([selected, staff, *jobs, gross, approved, new, place, line, papers, secured, state, bad])
