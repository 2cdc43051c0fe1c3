"""The data sets of benchmarks/side_by_side.py: tables, and what is publicly known of their columns.

Bounds and categories are from each publisher's description, and round numbers where it has none. No record was looked
at for them.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd


@dataclass(frozen=True)
class DataSet:
    """One question on one table."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    target: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    numbers: dict[str, tuple[float, float]]
    """Bounds; what is beyond them is cut to them, what is missing is the middle."""
    categories: dict[str, list[str]]
    """Anything else, and what is missing, is none of them."""

    def share(self, records: int) -> "DataSet":
        """The first so many of its training records."""
        return DataSet(**{**vars(self), "train": self.train.head(records)})


def adult(folder: Path) -> DataSet:
    """Income above 50,000 dollars; the publisher's split."""
    columns = [
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
        "native-country",
        "income",
    ]
    how = {"header": None, "names": columns, "skipinitialspace": True, "na_values": "?", "keep_default_na": False}
    words = (line.split(":") for line in (folder / "adult" / "adult.names").read_text().splitlines() if ":" in line)
    listed = {name: rest.strip().rstrip(".").split(", ") for name, rest in (one for one in words if len(one) == 2)}
    used = ["workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country"]
    return DataSet(
        name="adult",
        train=pd.read_csv(folder / "adult" / "adult.data.xz", **how),
        test=pd.read_csv(folder / "adult" / "adult.test.xz", skiprows=1, **how),
        target="income",
        positive=(">50K", ">50K."),
        negative=("<=50K", "<=50K."),
        numbers={
            "age": (17, 90),
            "education-num": (1, 16),
            "capital-gain": (0, 20_000),
            "capital-loss": (0, 4_000),
            "hours-per-week": (1, 99),
        },
        categories={name: listed[name] for name in used},
    )


def diabetes(folder: Path) -> DataSet:
    """Readmission to hospital; the first stay of each patient, so that a row is one. Every fifth patient is test."""
    table = pd.read_csv(
        folder / "diabetes-130" / "diabetic_data.csv.xz",
        na_values="?",
        keep_default_na=False,
        dtype={"payer_code": str},
    )
    table = table.sort_values("encounter_id").drop_duplicates("patient_nbr")
    held_out = table["patient_nbr"] % 5 == 0
    ways = ["No", "Down", "Steady", "Up"]
    return DataSet(
        name="diabetes-130",
        train=table[~held_out].reset_index(drop=True),
        test=table[held_out].reset_index(drop=True),
        target="readmitted",
        positive=("<30", ">30"),
        negative=("NO",),
        numbers={
            "time_in_hospital": (1, 14),
            "num_lab_procedures": (0, 100),
            "num_procedures": (0, 6),
            "num_medications": (0, 50),
            "number_outpatient": (0, 5),
            "number_emergency": (0, 5),
            "number_inpatient": (0, 5),
            "number_diagnoses": (1, 9),
        },
        categories={
            "age": [f"[{low}-{low + 10})" for low in range(0, 100, 10)],
            "race": ["Caucasian", "AfricanAmerican", "Hispanic", "Asian", "Other"],
            "gender": ["Female", "Male"],
            "admission_type_id": [str(code) for code in range(1, 9)],
            "discharge_disposition_id": [str(code) for code in range(1, 31)],
            "admission_source_id": [str(code) for code in range(1, 27)],
            "max_glu_serum": ["None", "Norm", ">200", ">300"],
            "A1Cresult": ["None", "Norm", ">7", ">8"],
            "metformin": ways,
            "insulin": ways,
            "change": ["No", "Ch"],
            "diabetesMed": ["No", "Yes"],
        },
    )


def loans(folder: Path) -> DataSet:
    """Loans that were charged off, of 154 banks; the authors' split."""
    table = pd.read_csv(folder / "sba-loans" / "SBAcase.11.13.17.csv.xz", low_memory=False, encoding="utf-8-sig")
    table["NewExist"] = table["NewExist"].astype("Int64")
    return DataSet(
        name="sba-loans",
        train=table[table["Selected"] == 1].reset_index(drop=True),
        test=table[table["Selected"] == 0].reset_index(drop=True),
        target="Default",
        positive=("1",),
        negative=("0",),
        numbers={
            "NoEmp": (0, 50),
            "CreateJob": (0, 20),
            "RetainedJob": (0, 50),
            "DisbursementGross": (0, 1_000_000),
            "Portion": (0, 1),
        },
        categories={
            "NewExist": ["1", "2"],
            "UrbanRural": ["0", "1", "2"],
            "RevLineCr": ["Y", "N"],
            "LowDoc": ["Y", "N"],
            "RealEstate": ["0", "1"],
            "BankState": ["CA"],
        },
    )


def bank(folder: Path) -> DataSet:
    """Public stand-in: what the settings of all sides are chosen on. A shuffled third is test."""
    table = pd.read_csv(folder / "bank-marketing" / "bank-full.csv.xz", sep=";").sample(frac=1, random_state=0)
    third = len(table) // 3
    months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    jobs = [
        "admin.",
        "unknown",
        "unemployed",
        "management",
        "housemaid",
        "entrepreneur",
        "student",
        "blue-collar",
        "self-employed",
        "retired",
        "technician",
        "services",
    ]
    return DataSet(
        name="bank-marketing",
        train=table[third:].reset_index(drop=True),
        test=table[:third].reset_index(drop=True),
        target="y",
        positive=("yes",),
        negative=("no",),
        numbers={
            "age": (18, 95),
            "balance": (-5_000, 20_000),
            "day": (1, 31),
            "campaign": (1, 20),
            "previous": (0, 10),
        },
        categories={
            "job": jobs,
            "marital": ["divorced", "married", "single"],
            "education": ["unknown", "primary", "secondary", "tertiary"],
            "default": ["no", "yes"],
            "housing": ["no", "yes"],
            "loan": ["no", "yes"],
            "contact": ["unknown", "telephone", "cellular"],
            "month": months,
            "poutcome": ["unknown", "other", "failure", "success"],
        },
    )
