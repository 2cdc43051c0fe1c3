"""Public bounds for columns whose names say what they hold: what a draft proposes and what a warning recommends.

None of it is from anybody's records. `why` says in words where the bounds are from; people may and should choose
others that fit their study, from a codebook. A name is matched by whole words, in English, whatever its case.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A kind of column, and bounds that hold for nearly everybody."""

    names: str
    """For example."""
    words: str
    """Of a column's name, as a regular expression of words that are divided by blanks."""
    low: float
    high: float
    why: str
    transform: str = "none"

    @property
    def keys(self) -> str:
        """As a schema has them."""
        more = ', transform = "log1p"' if self.transform == "log1p" else ""
        return f"low = {self.low:g}, high = {self.high:g}{more}"

    @property
    def source(self) -> str:
        return f"parley's public default: {self.why}"


KNOWN = (
    Known(
        "age, age_at_diagnosis",
        r"age( (at|in|of) .*)?|.* age|age .*",
        0,
        120,
        "years of age; nobody verified has lived beyond 122",
    ),
    Known(
        "systolic_bp, sbp, trestbps",
        r"systolic.*|.*\bsystolic|sbp|sysbp|sys bp|trestbps|ap hi",
        60,
        260,
        "systolic blood pressure in mm Hg; 120 is normal, guidelines call 180 a crisis",
    ),
    Known(
        "diastolic_bp, dbp",
        r"diastolic.*|.*\bdiastolic|dbp|diabp|dia bp|ap lo",
        30,
        160,
        "diastolic blood pressure in mm Hg; 80 is normal, guidelines call 120 a crisis",
    ),
    Known(
        "heart_rate, pulse, thalach",
        r"(resting )?heart rate|hr|pulse( rate)?|thalach|max heart rate",
        30,
        220,
        "beats a minute; 60 to 100 at rest, 220 minus age at most",
    ),
    Known("bmi", r"bmi|body mass index", 10, 70, "kg/m²; WHO calls below 16 severely thin and from 40 severely obese"),
    Known("height_cm", r"(body )?height( cm)?|stature", 40, 220, "cm, from infants to tall adults"),
    Known("weight_kg", r"(body )?weight( kg)?", 1, 250, "kg, from infants to very heavy adults"),
    Known(
        "temperature",
        r"(body )?temperature|temp( c)?",
        30,
        43,
        "degrees Celsius of a body, from deep hypothermia to the limit",
    ),
    Known("spo2", r"spo2|o2 ?sat.*|oxygen saturation", 50, 100, "per cent of oxygen saturation; below 90 is low"),
    Known("respiratory_rate", r"resp(iratory)? rate|rr", 4, 60, "breaths a minute; 12 to 20 for adults at rest"),
    Known(
        "chol, serum_cholesterol",
        r"(serum |total )?chol(esterol)?|tot chol",
        80,
        500,
        "mg/dl; guidelines call 200 desirable and 240 high",
    ),
    Known(
        "glucose, fasting_glucose",
        r"(fasting )?(blood )?glucose|blood sugar",
        30,
        600,
        "mg/dl; 70 to 100 fasting, from 126 diabetes",
    ),
    Known("hba1c", r"hba1c|a1c", 3, 18, "per cent; from 6.5 diabetes"),
    Known("creatinine", r"creatinine", 0, 20, "mg/dl; about 1 is normal, above 5 kidney failure", "log1p"),
    Known(
        "ejection_fraction, lvef",
        r"ejection fraction|lvef|ef",
        5,
        85,
        "per cent of the left ventricle; 50 to 70 is normal",
    ),
    Known("pct_fat, body_fat_percent", r"percent(age)?( .*)?|pct( .*)?|.* (percent(age)?|pct)", 0, 100, "a percentage"),
    Known(
        "probability, share",
        r"prob(ability)?( .*)?|fraction( .*)?|ratio|share|.* (probability|fraction|share)",
        0,
        1,
        "a share of one",
    ),
    Known(
        "length_of_stay, time_in_hospital",
        r"(length of stay|los|days in hospital|time in hospital|hospital days)",
        0,
        365,
        "days in hospital, up to a year",
        "log1p",
    ),
    Known(
        "num_visits, number_inpatient, child_count",
        r"(n|num|nr|no|number|count)( of)? .*|.* (count|counts|number|visits)|visits|admissions",
        0,
        1000,
        "a count of events; its logarithm, because most are small",
        "log1p",
    ),
    Known(
        "income, total_cost",
        r".*\b(income|salary|price|cost|costs|charge|charges|amount|revenue|payment)",
        0,
        10_000_000,
        "an amount of money that is not owed; its logarithm, because most are small",
        "log1p",
    ),
    Known("year, birth_year", r"year|.* year|year .*", 1900, 2100, "a calendar year"),
    Known("month", r"month|.* month", 1, 12, "a month by its number"),
    Known("hour", r"hour|hr|hour of day|.* hour", 0, 24, "an hour of the day"),
    Known("weekday", r"weekday|day of week", 0, 7, "a day of the week by its number"),
    Known("latitude, lat", r"lat(itude)?", -90, 90, "degrees of latitude"),
    Known("longitude, lon", r"lon(g|gitude)?|lng", -180, 180, "degrees of longitude"),
)
FLAG = Known("", "", 0, 1, "no and yes, written as 0 and 1")


def known_bounds(name: str) -> Known | None:
    """What a column's name promises, if it is in the table; the first that fits."""
    words = words_of(name)
    return next((each for each in KNOWN if re.fullmatch(each.words, words)), None)


def words_of(name: str) -> str:
    """age_at_index, ageAtIndex and Age-at-index are: age at index."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return re.sub(r"[\W_]+", " ", parted).strip().lower()
