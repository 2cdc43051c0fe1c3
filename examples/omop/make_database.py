"""A made-up hospital in OMOP's common data model, v5.4: three of its tables in an SQLite file.

    python examples/omop/make_database.py ../trial/omop.db --people 2000 --seed 1

Nobody in it exists: people, visits and blood pressures are drawn here, so that a query and a schema can be tried before
they meet records. Columns and concepts are OMOP's own.
"""

import argparse
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

MALE, FEMALE = 8507, 8532
TYPE_2_DIABETES, HYPERTENSION, COMMON_COLD = 201826, 320128, 260427
SYSTOLIC, BODY_MASS_INDEX, GLUCOSE = 3004249, 3038553, 3004501
UNITS = {SYSTOLIC: 8876, BODY_MASS_INDEX: 9531, GLUCOSE: 8840}
FROM_A_RECORD = 32817
INDEX_DAY = date(2020, 1, 1)

TABLES = """
CREATE TABLE person (
    person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER NOT NULL, year_of_birth INTEGER NOT NULL,
    month_of_birth INTEGER, day_of_birth INTEGER, birth_datetime TIMESTAMP, race_concept_id INTEGER NOT NULL,
    ethnicity_concept_id INTEGER NOT NULL, location_id INTEGER, provider_id INTEGER, care_site_id INTEGER,
    person_source_value VARCHAR(50), gender_source_value VARCHAR(50), gender_source_concept_id INTEGER,
    race_source_value VARCHAR(50), race_source_concept_id INTEGER, ethnicity_source_value VARCHAR(50),
    ethnicity_source_concept_id INTEGER
);
CREATE TABLE condition_occurrence (
    condition_occurrence_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL, condition_concept_id INTEGER NOT NULL,
    condition_start_date DATE NOT NULL, condition_start_datetime TIMESTAMP, condition_end_date DATE,
    condition_end_datetime TIMESTAMP, condition_type_concept_id INTEGER NOT NULL,
    condition_status_concept_id INTEGER, stop_reason VARCHAR(20), provider_id INTEGER, visit_occurrence_id INTEGER,
    visit_detail_id INTEGER, condition_source_value VARCHAR(50), condition_source_concept_id INTEGER,
    condition_status_source_value VARCHAR(50)
);
CREATE TABLE measurement (
    measurement_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL, measurement_concept_id INTEGER NOT NULL,
    measurement_date DATE NOT NULL, measurement_datetime TIMESTAMP, measurement_time VARCHAR(10),
    measurement_type_concept_id INTEGER NOT NULL, operator_concept_id INTEGER, value_as_number NUMERIC,
    value_as_concept_id INTEGER, unit_concept_id INTEGER, range_low NUMERIC, range_high NUMERIC, provider_id INTEGER,
    visit_occurrence_id INTEGER, visit_detail_id INTEGER, measurement_source_value VARCHAR(50),
    measurement_source_concept_id INTEGER, unit_source_value VARCHAR(50), unit_source_concept_id INTEGER,
    value_source_value VARCHAR(50), measurement_event_id INTEGER, meas_event_field_concept_id INTEGER
);
"""
Row = dict[str, Any]


def people(count: int, seed: int, first: int = 1) -> Iterator[tuple[Row, list[Row], list[Row]]]:
    """Each person with their conditions and measurements; diabetes comes more often with age, weight and glucose."""
    source = random.Random(seed)
    for person_id in range(first, first + count):
        age, male = source.randint(18, 94), source.random() < 0.48
        index = min(55.0, max(16.0, source.gauss(26.5, 4.5)))
        glucose = min(300.0, max(60.0, source.gauss(92 + 0.9 * (index - 26) + 0.25 * (age - 50), 14)))
        systolic = min(210.0, max(85.0, source.gauss(118 + 0.45 * (age - 50) + 0.6 * (index - 26), 13)))
        risk = -3.4 + 0.03 * (age - 50) + 0.11 * (index - 26) + 0.035 * (glucose - 92)
        person = {
            "person_id": person_id,
            "gender_concept_id": MALE if male else FEMALE,
            "year_of_birth": INDEX_DAY.year - age,
            "race_concept_id": 0,
            "ethnicity_concept_id": 0,
        }
        found = {SYSTOLIC: systolic, BODY_MASS_INDEX: index, GLUCOSE: glucose}
        measurements = [
            _measured(person_id, concept, value * (1 + source.gauss(0, 0.02)), _before(source))
            for concept, value in found.items()
            for _ in range(source.choice((0, 1, 1, 2, 3)))  # some were never measured, some often
        ]
        conditions = [_condition(person_id, COMMON_COLD, _before(source)) for _ in range(source.choice((0, 0, 1)))]
        if systolic > 138 and source.random() < 0.8:
            conditions.append(_condition(person_id, HYPERTENSION, _before(source)))
        if source.random() < 1 / (1 + math.exp(-risk - 1.5)):
            day = INDEX_DAY + timedelta(days=source.randint(1, 720))
            conditions += [_condition(person_id, TYPE_2_DIABETES, day + timedelta(days=each)) for each in (0, 90)]
        yield person, conditions, measurements


def write(path: Path, count: int, seed: int, first: int = 1) -> None:
    """Everybody, into a new file."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
        numbers = {"condition_occurrence": 0, "measurement": 0}
        for person, conditions, measurements in people(count, seed, first):
            _insert(database, "person", person)
            for table, rows in (("condition_occurrence", conditions), ("measurement", measurements)):
                for row in rows:
                    numbers[table] += 1
                    _insert(database, table, {f"{table}_id": numbers[table], **row})
        database.commit()


def _insert(database: sqlite3.Connection, table: str, row: Row) -> None:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))


def _measured(person_id: int, concept: int, value: float, day: date) -> Row:
    return {
        "person_id": person_id,
        "measurement_concept_id": concept,
        "measurement_date": day.isoformat(),
        "measurement_type_concept_id": FROM_A_RECORD,
        "value_as_number": round(value, 1),
        "unit_concept_id": UNITS[concept],
    }


def _condition(person_id: int, concept: int, day: date) -> Row:
    return {
        "person_id": person_id,
        "condition_concept_id": concept,
        "condition_start_date": day.isoformat(),
        "condition_type_concept_id": FROM_A_RECORD,
    }


def _before(source: random.Random) -> date:
    return INDEX_DAY - timedelta(days=source.randint(1, 1800))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.path, given.people, given.seed)
    print(f"{given.path}: {given.people:,} made-up people")
