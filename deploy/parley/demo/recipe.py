"""The demonstration's study, study.toml beside the records, and how its four hospitals are called.

Its columns, model and algorithm are explained in the file; `parley demo --study` takes another one.
"""

from dataclasses import dataclass
from pathlib import Path

from parley.demo.heart_data import bundled, hospital_file
from parley.study.document import read

FILE = bundled() / "study.toml"
STUDY = read(FILE)


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
TITLES = {each.name: each.title for each in HOSPITALS}
