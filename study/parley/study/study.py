"""A study: what people decide about a run, and nothing else. From it follow a plan, a simulation and a manifest.

Immutable and content only: no file is kept open, no record in memory. `parley.study.document` reads and writes it as
study.toml; every command and this class take the same words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.algorithms.algorithm import Algorithm
from parley.algorithms.registry import build_algorithm
from parley.algorithms.regularisers import Regulariser
from parley.federation.fields import Fields, Plain
from parley.federation.kinds import CENTRAL
from parley.federation.manifest import Manifest, Operator
from parley.federation.people import Institution, Legal
from parley.federation.start_and_stop import PACKED, StopEarly, Uploads
from parley.learning.holding import Layout
from parley.learning.models import Model
from parley.learning.schema import Schema
from parley.models.registry import build_model
from parley.mpc.parts import NoiseParts, parts_of, usual_own
from parley.mpc.tables import Cover, Precision
from parley.study.columns import columns_of
from parley.study.content import arguments_of, tables_of
from parley.study.errors import Collected, DocumentError, StudyError
from parley.study.files import Files
from parley.study.opened import opened, table_of

if TYPE_CHECKING:
    from parley.study.plan import Plan
    from parley.study.result import Result
    from parley.study.sweep import Sweep

Given = Any
"""Records as a user has them: a path, a data frame, a dictionary of columns, a list of dictionaries, a matrix."""
SEEDS = 5


@dataclass(frozen=True, init=False, repr=False)
class Study:
    """What people decide about a run; everything else follows from it.

    `schema` is a Schema, the path of a schema.toml, or a table with `features` and `target`. `model` and `algorithm`
    are a name, or a table with a name and its options. What only a manifest needs (`run`, `federation`, `parties`,
    `aggregators`, `coordinator`) may be left out until there is one. docs/study.md explains every argument.

    >>> target = {"name": "num", "kind": "binary", "positive": ["1", "2", "3", "4"], "negative": ["0"]}
    >>> columns = {"intercept": True, "features": [{"name": "age", "low": 20, "high": 90}], "target": target}
    >>> study.Study(columns, epsilon=1.0)
    Study(logistic of 'num' on 1 columns, auto, epsilon 1)
    """

    schema: Schema
    layout: Layout | None
    """What files look like, where the schema is an institution's schema.toml; without one a file's name tells."""
    _model: Plain
    epsilon: float
    delta: float
    _algorithm: Plain
    accountant: str
    regulariser: Regulariser
    run: str | None
    federation: str | None
    _parties: tuple[tuple[str, int], ...]
    _data_sets: tuple[tuple[str, str], ...]
    aggregators: tuple[Operator, ...]
    coordinator: Operator | None
    _institutions: tuple[tuple[str, Institution], ...]
    legal: Legal | None
    """What runs are for and by what right."""
    minimum_parties: int | None
    deadline_seconds: float
    uploads: Uploads
    """How wide numbers are on their way to server A: as the opening needs, or words of 8 bytes."""
    security: str
    own: float | None
    audit: str | None
    worst_epsilon: float | None
    cover: Cover
    precision: Precision | None
    stop_early: StopEarly | None
    """Whether a run ends once its loss on the public test set has stopped falling."""
    start: Path | None
    """A public model file that runs start from."""
    data: Files | None

    def __init__(
        self,
        schema: Schema | Path | str | Mapping[str, Any],
        *,
        model: str | Mapping[str, Any] = "logistic",
        epsilon: float,
        delta: float = 1e-5,
        algorithm: str | Mapping[str, Any] = "auto",
        accountant: str = "pld",
        regulariser: Mapping[str, Any] | Regulariser | None = None,
        run: str | None = None,
        federation: str | None = None,
        parties: Mapping[str, int] | None = None,
        data_sets: Mapping[str, str] | None = None,
        aggregators: Sequence[Operator | Mapping[str, str]] = (),
        coordinator: Operator | Mapping[str, str] | None = None,
        institutions: Mapping[str, Institution | Mapping[str, str]] | None = None,
        legal: Legal | Mapping[str, str] | None = None,
        minimum_parties: int | None = None,
        deadline_seconds: float = 60.0,
        uploads: Uploads = PACKED,
        security: str = "semi-honest",
        own: float | None = None,
        audit: str | None = None,
        worst_epsilon: float | None = None,
        cover: Cover = "strips",
        precision: Precision | None = None,
        stop_early: StopEarly | Mapping[str, Any] | None = None,
        start: Path | str | None = None,
        data: Files | Mapping[str, Any] | None = None,
        layout: Layout | None = None,
    ) -> None:
        columns, form = columns_of(schema)
        for what, names in (("data_sets", data_sets), ("institutions", institutions)):
            if strange := sorted(set(names or ()) - set(parties or ())):
                raise StudyError(f"{what} names {strange[0]!r}, which is none of the parties: name it there too")
        given = {
            "model": {"kind": model} if isinstance(model, str) else model,
            "epsilon": epsilon,
            "delta": delta,
            "algorithm": {"name": algorithm} if isinstance(algorithm, str) else algorithm,
            "accountant": accountant,
            "regulariser": regulariser,
            "run": run,
            "federation": federation,
            "parties": parties,
            "data_sets": data_sets,
            "aggregators": aggregators,
            "coordinator": coordinator,
            "institutions": institutions,
            "legal": legal,
            "minimum_parties": minimum_parties,
            "deadline_seconds": deadline_seconds,
            "uploads": None if uploads == PACKED else uploads,
            "security": security,
            "own": own,
            "audit": audit,
            "worst_epsilon": worst_epsilon,
            "cover": cover,
            "precision": precision,
            "stop_early": stop_early,
        }
        found: dict[str, Any] = dict.fromkeys(given) | arguments_of(Fields(tables_of(given), "", DocumentError))
        found |= {
            "schema": columns,
            "layout": layout or form,
            "start": None if start is None else Path(start),
            "data": _files(data, schema),
            "_model": Plain.of(found.pop("model")),
            "_algorithm": Plain.of(found.pop("algorithm")),
            "_parties": tuple(found.pop("parties").items()),
            "_data_sets": tuple(found.pop("data_sets").items()),
            "_institutions": tuple(found.pop("institutions").items()),
            "regulariser": found["regulariser"] or Regulariser(),
            "uploads": found["uploads"] or PACKED,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        wrong = Collected()
        wrong.look(partial(build_model, self.model, self.schema))
        if not self.central:
            wrong.look(self.new_algorithm)
        wrong.finish()

    @property
    def model(self) -> dict[str, Any]:
        """`kind`, and the model's options."""
        return self._model.body

    @property
    def algorithm(self) -> dict[str, Any]:
        """`name`, and the algorithm's parameters."""
        return self._algorithm.body

    @property
    def parties(self) -> dict[str, int]:
        """Each party's units of privacy, which are public; empty where the study names none."""
        return dict(self._parties)

    @property
    def data_sets(self) -> dict[str, str]:
        """Which data set the study is about, of each party that has several."""
        return dict(self._data_sets)

    @property
    def institutions(self) -> dict[str, Institution]:
        """Who parties are in law, of those of whom the study says so."""
        return dict(self._institutions)

    @property
    def parts(self) -> NoiseParts:
        """What the servers' noise is made of, unless `worst_epsilon` is to choose."""
        own = usual_own(self.security) if self.own is None else self.own
        return parts_of(self.security, own, self.audit)

    @property
    def central(self) -> bool:
        """Whether the algorithm is one of research's central methods, which only `parley simulate` knows."""
        return self.algorithm.get("name") in CENTRAL

    def new_model(self) -> Model:
        """The model, ready to be asked. Of a PyTorch module the code is imported and runs here, in this process."""
        return opened(self._model, self.schema)

    def model_table(self) -> dict[str, Any]:
        """[model] as a manifest or a model file has it: with its dimension, and of a module with digest and probe."""
        return table_of(self._model, self.schema)

    def new_algorithm(self) -> Algorithm:
        """The algorithm, built; it has planned nothing yet."""
        return build_algorithm(self.algorithm, self.regulariser)

    def plan(self, records: int | Mapping[str, int] | None = None) -> "Plan":
        """What a run would cost and who could learn what; takes seconds and reads no record.

        `records` are the units of each party, or of a single one. Without them they are what the study names, or how
        many there are in its files.

        >>> plan = study.read("study.toml").plan({"a": 5000, "b": 5000})
        >>> plan.rounds, round(plan.epsilon, 2)
        (216, 1.0)
        """
        from parley.study.plan import plan_of

        return plan_of(self, records)

    def simulate(
        self,
        data: Mapping[str, Given] | Given | None = None,
        *,
        test: Given | float | None = None,
        seeds: int = SEEDS,
        repeatable: bool = False,
        workers: int = 1,
        public: bool = False,
        backend: str = "local",
        progress: Callable[[str], None] | None = None,
    ) -> "Result":
        """Train as the federation would, in this process, `seeds` times.

        `data` has one entry per party, or is one set of records; without it the study's own files are read. `test` is
        public: a path, a frame, or a share of the records that is held out (a fifth where nothing is given). Keys are
        fresh and thrown away; with `repeatable` they are 0, 1, 2 …, and the noise protects nobody. `public` is your
        word that the records are: then nothing is charged, as nothing is on rows of `made_up`. `backend="ray"` plays
        the fits on the workers of a Ray cluster that is started here. `progress=print` says every ten seconds how far a
        fit has come.

        >>> files = {"a": "cleveland.csv", "b": "hungarian.csv"}
        >>> result = study.read("study.toml").simulate(files, test="test.csv", seeds=2)
        >>> sorted(result.quality)
        ['accuracy', 'auc', 'average_precision', 'brier', 'calibration_slope', 'loss']
        """
        from parley.study.simulate import simulate

        return simulate(
            self, data, test=test, seeds=seeds, repeatable=repeatable, workers=workers, public=public,
            backend=backend, progress=progress,
        )  # fmt: skip

    def sweep(
        self,
        data: Mapping[str, Given] | Given | None = None,
        *,
        epsilon: Sequence[float] = (),
        model: Sequence[str | Mapping[str, Any]] = (),
        algorithm: Sequence[str | Mapping[str, Any]] = (),
        test: Given | float | None = None,
        seeds: int = 1,
        repeatable: bool = False,
        workers: int = 1,
        public: bool = False,
        backend: str = "local",
    ) -> "Sweep":
        """`simulate` with every combination of these, each `seeds` times, and what all of it costs together.

        What is left out is the study's own. Every fit is charged, because every one is shown: try on `made_up` rows or
        on public records first, which costs nobody anything.

        >>> s = study.read("study.toml")
        >>> found = s.sweep(epsilon=[0.5, 1.0], algorithm=["dp-gd"])
        >>> found.cost.fits, 1.0 < found.cost.epsilon < 1.5
        (2, True)
        """
        from parley.study.sweep import sweep

        choices = {"epsilon": epsilon, "model": model, "algorithm": algorithm}
        return sweep(
            self, data, choices,
            test=test, seeds=seeds, repeatable=repeatable, workers=workers, public=public, backend=backend,
        )  # fmt: skip

    def made_up(self, records: int, seed: int = 0) -> dict[str, list[Any]]:
        """A table of made-up rows that fit the schema and can be learned from; no record has a part in it.

        Trying a study on it costs nobody anything. The same seed gives the same rows; another one gives other rows of
        the same kind, so that `test=study.made_up(500, seed=1)` fits.

        >>> s = study.read("study.toml")
        >>> rows = s.made_up(200)
        >>> len(rows["age"]), s.simulate(rows, test=s.made_up(100, seed=1), seeds=1).model.card["records"]
        (200, 'made up')
        """
        from parley.study.imitation import made_up

        return made_up(self, records, seed)

    def manifest(self, records: Mapping[str, int] | None = None) -> Manifest:
        """The manifest that a federation runs: rounds, batches and the least noise that keeps the promise.

        >>> made = study.read("study.toml").manifest()
        >>> made.releases, made.parties
        (216, ('cleveland', 'hungarian', 'switzerland', 'va'))
        """
        from parley.study.manifests import manifest_of

        return manifest_of(self, records)

    def write(self, path: Path | str) -> None:
        """As study.toml; `parley.study.read` is the inverse.

        >>> study.read("study.toml").replaced(epsilon=0.5).write("stricter.toml")
        >>> study.read("stricter.toml").epsilon
        0.5
        """
        from parley.study.document import write

        write(self, Path(path))

    def replaced(self, **changes: Any) -> "Study":
        """The same study but for these arguments.

        >>> study.read("study.toml").replaced(epsilon=0.5, algorithm="dp-gd")
        Study(logistic of 'num' on 12 columns, dp-gd, epsilon 0.5)
        """
        unknown = sorted(changes.keys() - set(self.arguments()))
        if unknown:
            raise StudyError(f"a study has no {unknown[0]!r}: use {', '.join(self.arguments())}")
        return Study(**{**{name: getattr(self, name) for name in self.arguments()}, **changes})

    @staticmethod
    def arguments() -> tuple[str, ...]:
        """What a study is made of, by name."""
        return tuple(each.name.removeprefix("_") for each in fields(Study))

    def __repr__(self) -> str:
        model, algorithm = self.model["kind"], self.algorithm.get("name")
        columns, target = self.schema.width, self.schema.target.name
        return f"Study({model} of {target!r} on {columns} columns, {algorithm}, epsilon {self.epsilon:g})"


def _files(data: Files | Mapping[str, Any] | None, schema: Any) -> Files | None:
    """With the schema.toml that the columns are from, so that the study can be written."""
    files = Files.of(data) if isinstance(data, Mapping) else data
    if not isinstance(schema, str | Path) or (files is not None and files.schema is not None):
        return files
    return replace(files or Files(), schema=Path(schema))
