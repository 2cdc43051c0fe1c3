"""The bundled heart-disease records: four hospitals' own files, a public hold-out, and how they were made.

    python -m parley.demo.heart_data ../shared/data/heart-disease    # writes deploy/data/heart_disease again

Cells are cleaned and nothing is imputed: `?` becomes an empty cell, 63.0 becomes 63, and a resting blood pressure or a
cholesterol of 0 becomes empty too, for no living patient has either; the publishers entered it where none was measured.
A quarter of every hospital's patients with the disease and of those without it is the hold-out: the rows whose SHA-256
(of hospital and cleaned cells) is smallest. So the split depends on no model and no fit, and anybody can repeat it.
"""

import csv
import hashlib
import io
import sys
from importlib import resources
from pathlib import Path

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
    "num",
)
NEVER_ZERO = ("trestbps", "chol")
HOLD_OUT = 4
"""One row in so many is public."""
SPLIT_LABEL = "parley heart-disease hold-out 1"
FILES = (*(f"{hospital}.csv" for hospital in HOSPITALS), "test.csv")

Row = tuple[str, ...]


def bundled() -> Path:
    """The folder of the installed package that holds the files."""
    return Path(str(resources.files("parley.demo"))) / "data" / "heart_disease"


def hospital_file(hospital: str) -> Path:
    """A hospital's private records, with a header."""
    return bundled() / f"{hospital}.csv"


def hold_out_file() -> Path:
    """The public hold-out; its first column, `hospital`, is no feature."""
    return bundled() / "test.csv"


def make(raw: Path) -> dict[str, str]:
    """The text of every bundled file, from the publisher's `processed.*.data`."""
    made: dict[str, str] = {}
    public: list[Row] = []
    for hospital in HOSPITALS:
        lines = (raw / f"processed.{hospital}.data").read_text("ascii").splitlines()
        rows = [clean(line) for line in lines if line.strip()]
        chosen = hold_out(hospital, rows)
        made[f"{hospital}.csv"] = _text(COLUMNS, [row for index, row in enumerate(rows) if index not in chosen])
        public += [(hospital, *rows[index]) for index in sorted(chosen)]
    made["test.csv"] = _text(("hospital", *COLUMNS), public)
    return made


def clean(line: str) -> Row:
    """One raw line as cells of the bundled files."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells where {len(COLUMNS)} were expected: is this a processed.*.data file?")
    return tuple(_cell(name, cell) for name, cell in zip(COLUMNS, cells, strict=True))


def _cell(name: str, cell: str) -> str:
    if cell == "?":
        return ""
    number = float(cell)
    return "" if number == 0 and name in NEVER_ZERO else f"{number:g}"


def hold_out(hospital: str, rows: list[Row]) -> set[int]:
    """Positions of the public rows: a quarter of either outcome, smallest digests first."""

    def digest(index: int) -> tuple[bytes, int]:
        text = ",".join((SPLIT_LABEL, hospital, *rows[index]))
        return hashlib.sha256(text.encode("ascii")).digest(), index

    chosen: set[int] = set()
    for sick in (False, True):
        stratum = sorted((index for index, row in enumerate(rows) if (row[-1] != "0") == sick), key=digest)
        chosen.update(stratum[: round(len(stratum) / HOLD_OUT)])
    return chosen


def _text(header: Row, rows: list[Row]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def main() -> None:
    raw = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/heart-disease")
    for name, text in make(raw).items():
        (bundled() / name).write_text(text, "ascii")
        print(f"{name}: {text.count(chr(10)) - 1} rows")


if __name__ == "__main__":
    main()
