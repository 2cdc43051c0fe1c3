"""Public schemas of five UCI data sets: categories as the publishers list them, bounds from what the columns mean.

Nothing here was computed from the data. Where a description gives no range, a round number that a person who never saw
the file would choose; what lies outside is cut.
"""

from typing import Any

# fmt: off
ADULT: dict[str, Any] = {
    "format": "csv",
    "header": False,
    "intercept": True,
    "columns": [
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
        "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
    ],
    "target": {"name": "income", "kind": "binary", "positive": [">50K", ">50K."], "negative": ["<=50K", "<=50K."]},
    "features": [
        {"name": "age", "low": 17, "high": 90, "centre": 40, "spread": 20},
        {"name": "education-num", "low": 1, "high": 16, "centre": 10, "spread": 4},
        {"name": "capital-gain", "low": 0, "high": 10000, "centre": 0, "spread": 5000},
        {"name": "capital-loss", "low": 0, "high": 2500, "centre": 0, "spread": 1000},
        {"name": "hours-per-week", "low": 0, "high": 80, "centre": 40, "spread": 15},
    ],
}
# fmt: on
_ADULT_CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": (
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
        "Doctorate 5th-6th Preschool"
    ),
    "marital-status": (
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": (
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
    ),
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": (
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
        "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
}


def _categories(lists: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "kind": "category", "categories": labels.split(), "missing": "zero", "other": "zero"}
        for name, labels in lists.items()
    ]


ADULT["features"] += _categories(_ADULT_CATEGORIES)

BANK: dict[str, Any] = {
    "format": "csv",
    "delimiter": ";",
    "intercept": True,
    "missing": [""],
    "target": {"name": "y", "kind": "binary", "positive": ["yes"], "negative": ["no"]},
    "features": [
        {"name": "age", "low": 18, "high": 90, "centre": 40, "spread": 15},
        {"name": "balance", "low": -2000, "high": 10000, "centre": 1000, "spread": 3000},
        {"name": "day", "low": 1, "high": 31, "centre": 16, "spread": 15},
        {"name": "duration", "low": 0, "high": 1500, "centre": 250, "spread": 250},
        {"name": "campaign", "low": 1, "high": 20, "centre": 2, "spread": 4},
        {"name": "previous", "low": 0, "high": 10, "centre": 0, "spread": 3},
        *_categories(
            {
                "job": (
                    "admin. blue-collar entrepreneur housemaid management retired self-employed services student "
                    "technician unemployed unknown"
                ),
                "marital": "married divorced single",
                "education": "unknown secondary primary tertiary",
                "default": "yes no",
                "housing": "yes no",
                "loan": "yes no",
                "contact": "unknown telephone cellular",
                "month": "jan feb mar apr may jun jul aug sep oct nov dec",
                "poutcome": "unknown other failure success",
            }
        ),
    ],
}

CREDIT: dict[str, Any] = {
    "format": "csv",
    "intercept": True,
    "target": {"name": "default.payment.next.month", "kind": "binary", "positive": ["1"], "negative": ["0"]},
    "features": [
        {"name": "LIMIT_BAL", "low": 0, "high": 500000, "centre": 150000, "spread": 150000},
        {"name": "AGE", "low": 20, "high": 70, "centre": 35, "spread": 10},
        # Months of delay; −2, −1 and 0 mean paid in one way or another.
        *({"name": f"PAY_{i}", "low": -2, "high": 4, "centre": 0, "spread": 1} for i in (0, 2, 3, 4, 5, 6)),
        *({"name": f"BILL_AMT{i}", "low": 0, "high": 300000, "centre": 50000, "spread": 80000} for i in range(1, 7)),
        *({"name": f"PAY_AMT{i}", "low": 0, "high": 30000, "centre": 5000, "spread": 8000} for i in range(1, 7)),
        *_categories({"SEX": "1 2", "EDUCATION": "1 2 3 4", "MARRIAGE": "1 2 3"}),
    ],
}

_WINE_RANGES = {
    "fixed acidity": (4, 14, 7, 2),
    "volatile acidity": (0, 1.2, 0.4, 0.2),
    "citric acid": (0, 1, 0.3, 0.2),
    "residual sugar": (0, 25, 5, 5),
    "chlorides": (0, 0.3, 0.05, 0.05),
    "free sulfur dioxide": (0, 100, 30, 20),
    "total sulfur dioxide": (0, 300, 120, 60),
    "density": (0.985, 1.005, 0.995, 0.003),
    "pH": (2.7, 4, 3.2, 0.2),
    "sulphates": (0.2, 1.2, 0.5, 0.2),
    "alcohol": (8, 15, 10.5, 1.5),
}


def _numbers(ranges: dict[str, tuple[float, float, float, float]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "low": low, "high": high, "centre": centre, "spread": spread}
        for name, (low, high, centre, spread) in ranges.items()
    ]


WINE: dict[str, Any] = {
    "format": "csv",
    "delimiter": ";",
    "intercept": True,
    # Scores run from 0 to 10; a point is the unit.
    "target": {"name": "quality", "kind": "number", "low": 0, "high": 10, "centre": 5, "spread": 1},
    "features": _numbers(_WINE_RANGES),
}

BIKE: dict[str, Any] = {
    "format": "csv",
    "intercept": True,
    "target": {"name": "cnt", "kind": "number", "low": 0, "high": 1000, "centre": 200, "spread": 200},
    "features": [
        *_numbers(
            {
                "temp": (0, 1, 0.5, 0.2),
                "atemp": (0, 1, 0.5, 0.2),
                "hum": (0, 1, 0.6, 0.2),
                "windspeed": (0, 1, 0.2, 0.1),
            }
        ),
        *_categories(
            {
                "season": "1 2 3 4",
                "yr": "0 1",
                "mnth": "1 2 3 4 5 6 7 8 9 10 11 12",
                "hr": " ".join(str(hour) for hour in range(24)),
                "holiday": "0 1",
                "weekday": "0 1 2 3 4 5 6",
                "workingday": "0 1",
                "weathersit": "1 2 3 4",
            }
        ),
    ],
}
