"""One private model over three hospitals whose records lie in OMOP databases, from Python.

    python examples/omop/train.py ../trial/model.npz

A simulation: the hospitals are made up, and one process asks all three databases. In a federation each hospital's node
asks its own (docs/data.md), and patients.sql and schema.toml are what they agree on.
"""

import sys
import tempfile
from pathlib import Path

from make_database import write

from parley import study

HERE = Path(__file__).parent
QUERY = (HERE / "patients.sql").read_text()
PEOPLE = {"riverside": 2500, "hillcrest": 1800, "lakeview": 1200}

with tempfile.TemporaryDirectory() as folder:
    tables = {}
    for number, (hospital, count) in enumerate(PEOPLE.items()):
        path = Path(folder) / f"{hospital}.db"
        write(path, count, seed=number, first=1 + 10_000 * number)
        tables[hospital] = study.sql(f"sqlite:///{path}", QUERY)
        print(f"{hospital}: {tables[hospital].count:,} people")
    public = Path(folder) / "public.db"
    write(public, 2000, seed=99, first=90_001)
    s = study.Study(HERE / "schema.toml", model="logistic", epsilon=1.0)
    result = s.simulate(tables, test=study.sql(f"sqlite:///{public}", QUERY), seeds=3)
print(result)
result.save(Path(sys.argv[1]))
