"""The demonstration's study: four hospitals, what their columns mean by public knowledge, and how they train.

Nothing here was computed from the records. Bounds, centres and spreads are what a cardiologist expects of adults who
are sent for an exercise test and coronary angiography; the algorithm's parameters were chosen on made-up patients
(`benchmarks/heart_disease.py`, docs/experiments/heart-disease.md).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.demo.heart_data import hospital_file
from parley.federation.manifest import Manifest, Operator
from parley.learning.schema import Schema, schema_from_json
from parley.mpc.parts import USUAL, NoiseParts
from parley.study.manifests import draft

EPSILON = 1.5
DELTA = 1e-5
"""Far below one in 690 records."""
RUN = "heart-disease"
FEDERATION = "heart-demo"
DEADLINE_SECONDS = 30.0


@dataclass(frozen=True)
class Hospital:
    """A party of the demonstration."""

    name: str
    """As certificates and the manifest have it."""
    title: str
    legal_entity: str

    @property
    def data_file(self) -> Path:
        return hospital_file(self.name)


HOSPITALS = (
    Hospital("cleveland", "Cleveland Clinic", "Cleveland Clinic Foundation"),
    Hospital("hungarian", "Cardiology, Budapest", "Hungarian Institute of Cardiology"),
    Hospital("switzerland", "Zurich and Basel", "University Hospitals of Zurich and Basel"),
    Hospital("va", "V.A. Long Beach", "V.A. Medical Center, Long Beach"),
)
SIZES = {"cleveland": 227, "hungarian": 221, "switzerland": 92, "va": 150}
"""Public: how many patients each hospital brings."""
AGGREGATORS = (Operator("north", "North Trust"), Operator("south", "South Foundation"))
COORDINATOR = Operator("lead", "Heart Study Group")


def _number(name: str, low: float, high: float, centre: float, spread: float) -> dict[str, Any]:
    # What was not measured says nothing: the centre, which is encoded as zero.
    shape = {"low": low, "high": high, "centre": centre, "spread": spread, "missing": "centre"}
    return {"kind": "number", "name": name, **shape}


def _flag(name: str) -> dict[str, Any]:
    """No and yes as −1 and 1, unknown as 0."""
    return _number(name, 0.0, 1.0, 0.5, 0.5)


def _category(name: str, categories: str) -> dict[str, Any]:
    # The publisher's codes; an examination that was not made belongs to none of them.
    return {"kind": "category", "name": name, "categories": categories.split(), "missing": "zero"}


SCHEMA_BODY: dict[str, Any] = {
    "intercept": True,
    "target": {"name": "num", "kind": "binary", "positive": ["1", "2", "3", "4"], "negative": ["0"]},
    "features": [
        _number("age", 20.0, 90.0, 55.0, 15.0),  # adults; coronary disease is one of the sixth decade
        _flag("sex"),  # 1: male
        _category("cp", "1 2 3 4"),  # chest pain: typical, atypical, not anginal, none
        _number("trestbps", 80.0, 220.0, 130.0, 20.0),  # mm Hg at rest; 120 is normal, 140 hypertension
        _number("chol", 100.0, 400.0, 220.0, 50.0),  # mg/dl; guidelines call 200 desirable and 240 high
        _flag("fbs"),  # fasting blood sugar above 120 mg/dl
        _category("restecg", "0 1 2"),  # ECG at rest: normal, ST-T abnormality, hypertrophy
        _number("thalach", 60.0, 220.0, 140.0, 25.0),  # exercise tests aim at 85 % of 220 minus age
        _flag("exang"),  # angina under exercise
        _number("oldpeak", -2.0, 6.0, 1.0, 1.0),  # mm of ST depression; 1 mm is the usual criterion of a positive test
        _category("slope", "1 2 3"),  # of the ST segment: up, flat, down
        _number("ca", 0.0, 3.0, 0.0, 1.0),  # major vessels that fluoroscopy shows, of three
        _category("thal", "3 6 7"),  # thallium scan: normal, fixed defect, reversible defect
    ],
}
MODEL = {"kind": "logistic"}
ALGORITHM: dict[str, Any] = {
    "name": "ddp-srm",
    "gradient_norm": 1.0,
    "difference_norm": 0.125,
    "gamma": 0.9,
    # Every record in every round: so few of them gain nothing from sampling.
    "batch": sum(SIZES.values()),
    "passes": 19.0,
    "step": 4.0,
    "decay": "linear",
}


def schema() -> Schema:
    """What the hospitals' columns mean."""
    return schema_from_json(SCHEMA_BODY)


def manifest(
    run: str = RUN,
    federation: str = FEDERATION,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    minimum_parties: int = len(HOSPITALS),
    deadline_seconds: float = DEADLINE_SECONDS,
    parts: NoiseParts = USUAL,
) -> Manifest:
    """The demonstration's manifest, its noise calibrated: seconds, and imports scipy."""
    return draft(
        run=run,
        federation=federation,
        model=MODEL,
        algorithm=ALGORITHM,
        schema=schema(),
        sizes=SIZES,
        epsilon=epsilon,
        delta=delta,
        aggregators=AGGREGATORS,
        coordinator=COORDINATOR,
        minimum_parties=minimum_parties,
        deadline_seconds=deadline_seconds,
        parts=parts,
    )


def manifest_body(**wanted: Any) -> dict[str, Any]:
    """The same as a table: `Manifest.from_json` reads it, and TOML can hold it."""
    return manifest(**wanted).as_json()
