"""The data scientist's door: a study, its simulation, its plan, its manifest and its model file.

    from parley import study

    s = study.Study("schema.toml", model="logistic", epsilon=1.0)      # or study.read("study.toml")
    print(s.plan(records={"a": 5000, "b": 5000}))                      # what it costs, and who could learn what
    result = s.simulate({"a": "a.csv", "b": "b.csv"}, seeds=5)
    print(result)
    result.save("model.npz")
    study.load("model.npz").predict_proba("new.csv")

Names are looked up when they are asked for, so that `from parley import study` loads nothing yet. What is not in
`__all__` is not public. docs/study.md is the guide, docs/api.md has every name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.federation.manifest import Operator as Operator
    from parley.learning.schema import Schema as Schema
    from parley.learning.sql import sql as sql
    from parley.study.document import read as read
    from parley.study.estimators import PrivateClassifier as PrivateClassifier
    from parley.study.estimators import PrivateRegressor as PrivateRegressor
    from parley.study.model_file import LoadedModel as LoadedModel
    from parley.study.model_file import load as load
    from parley.study.plan import Adversary as Adversary
    from parley.study.plan import Plan as Plan
    from parley.study.result import Interval as Interval
    from parley.study.result import Result as Result
    from parley.study.study import Study as Study
    from parley.study.sweep import Sweep as Sweep

_PLACES = {
    "Study": ("parley.study.study", "Study"),
    "Plan": ("parley.study.plan", "Plan"),
    "Adversary": ("parley.study.plan", "Adversary"),
    "Sweep": ("parley.study.sweep", "Sweep"),
    "Result": ("parley.study.result", "Result"),
    "Interval": ("parley.study.result", "Interval"),
    "LoadedModel": ("parley.study.model_file", "LoadedModel"),
    "PrivateClassifier": ("parley.study.estimators", "PrivateClassifier"),
    "PrivateRegressor": ("parley.study.estimators", "PrivateRegressor"),
    "Schema": ("parley.learning.schema", "Schema"),
    "Operator": ("parley.federation.manifest", "Operator"),
    "sql": ("parley.learning.sql", "sql"),
    "read": ("parley.study.document", "read"),
    "load": ("parley.study.model_file", "load"),
}
"""Each public name: its module, and what it is called there."""
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"parley.study has no {name!r}: it has {', '.join(__all__)}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
