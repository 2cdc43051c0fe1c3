"""What a coordinator gets to know of single records by the manifests it proposes, and what its manifests may cost.

Each attack is tried on two institutions that differ in one record, or in one harmless detail; it succeeds if what is
heard of them differs. `heard` is everything: joining, refusing and with which words, leaving, silence.
"""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.attacks.documents import UNITS, policy_text, schema_text
from parley.attacks.institution import JOINS, Institution, manifest, rows
from parley.attacks.kinds import Attack, Finding, Guard, removed
from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify
from parley.learning.exclusion import NOBODY, ExclusionList
from parley.learning.features import Extract, unknown_code
from parley.learning.fit import Fit
from parley.learning.holding import Holding, holding_bytes, holding_from_bytes
from parley.learning.readers import Data, read
from parley.learning.records import Records, encode
from parley.learning.rows import DenseRows, Norms
from parley.learning.schema import Schema
from parley.node.data_sets import DataSet
from parley.party.data import Shelf
from parley.party.errors import RefusedRunError
from parley.party.seal import Sealed
from parley.privacy.errors import PrivacyError
from parley.privacy.finite_precision import gaussian_reading
from parley.privacy.worst import MOST_READINGS


def _told_apart(one: str, other: str) -> Finding:
    """Whether what is heard tells two institutions apart, and if not, whether the manifest was refused."""
    if one != other:
        return Finding("succeeds", "the same words whatever the records hold", f"{one} | {other}"[:300])
    return Finding("bounded" if one == JOINS else "refused", "the same words whatever the records hold", one[:300])


def _oracle(folder: Path, asked: Manifest, record: str) -> Finding:
    """One institution of harmless records, and one where the first of them is another; both sealed."""
    harmless = rows()
    heard = []
    for name, records in (("without", harmless), ("with", [record, *harmless[1:]])):
        institution = Institution(folder / name, records)
        institution.seal()
        heard.append(institution.heard(asked))
    return _told_apart(*heard)


def _omitted_category(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """C1: pain without `atypical`, and what is not listed is refused: has anybody atypical pain?"""
    features = manifest().schema.body["features"]
    features[2] = {"kind": "category", "name": "pain", "categories": ["typical", "none"], "other": "refuse"}
    asked = manifest(**{"schema.features": features, "model.dimension": 5})
    return _oracle(folder, asked, "50,80,atypical,1")


def _foreign_column(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """C1, as it was found: a column that no schema of the institution names, here read as a number."""
    asked = manifest(**{"schema.features": [{"name": "name", "low": 0.0, "high": 1.0}], "model.dimension": 2})
    heard = []
    for name, first in (("without", "1"), ("with", "Jane Doe")):
        institution = Institution(
            folder / name,
            [f"{first if n == 0 else n},{row}" for n, row in enumerate(rows())],
            "name,age,pulse,pain,sick",
        )
        institution.seal()
        heard.append(institution.heard(asked))
    return _told_apart(*heard)


def _spread_as_threshold(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """A spread so small that rows above an age are too long to count exactly: is anybody older than 85?"""
    spread = 65.0 / 2**16
    age = {"name": "age", "low": 20.0, "high": 90.0, "centre": 20.0, "spread": spread}
    asked = manifest(**{"schema.features": [age], "model.dimension": 2})
    return _oracle(folder, asked, "90,80,none,1")


def _edited_after_sealing(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """Two operators change a record after sealing, one of them to a cell that is no number."""
    heard = []
    for name, record in (("harmless", "51,80,none,1"), ("bad", "old,80,none,1")):
        institution = Institution(folder / name)
        institution.seal()
        institution.write([record, *rows()[1:]])
        heard.append(institution.heard(manifest()))
    return _told_apart(*heard)


def _subset_of_columns(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """One institution, asked once with `pulse` and once without: does the column hold a cell that is no number?"""
    institution = Institution(folder / "bad", ["51,fast,none,1", *rows()[1:]])
    institution.seal()
    features = manifest().schema.body["features"]
    asked = [
        manifest(run="with"),
        manifest(**{"run": "without", "schema.features": [features[0]], "model.dimension": 2}),
    ]
    return _told_apart(*(institution.heard(each) for each in asked))


UNIT_SCHEMA = schema_text(UNITS + 1, unit="patient", records_per_unit=100)


def _visits_as_patients(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """C2: the manifest says what the file's columns are called, and calls the visit's number the patient."""
    features = manifest().schema.body["features"][:2]
    sampler = {"kind": "wor", "units": UNITS + 1, "batch": UNITS + 1}
    asked = manifest(
        **{
            "schema.unit": "patient",
            "schema.records_per_unit": 100,
            "schema.features": features,
            "mechanism.unit_column": "patient",
            "model.dimension": 3,
            "parties.0.sampler": sampler,
            # A free table that a party does not read: `schema` takes no such field at all.
            "regulariser": {"columns": ["nobody", "patient", "age", "pulse", "pain", "sick"]},
        }
    )
    sums = []
    for name, heavy in (("one", False), ("other", True)):
        records = [
            f"p{max(0, n - 99)},v{min(n, UNITS)},"
            + (f"{80 if heavy else 55},100,none,{1 if heavy else n % 2}" if n < 100 else f"55,100,none,{n % 2}")
            for n in range(200)
        ]
        institution = Institution(
            folder / name,
            records,
            "patient,visit,age,pulse,pain,sick",
            UNIT_SCHEMA,
            policy_text(unit_column="patient"),
        )
        institution.seal()
        try:
            sums.append(institution.contribution(asked, np.zeros(3)))
        except RefusedRunError as refusal:
            return Finding("refused", "no answer", str(refusal))
    moved = float(np.linalg.norm((sums[0] - sums[1]) * asked.lattice(0).step))
    bound = asked.mechanism.sensitivity(0)
    # A step of rounding per coordinate and term is the encoding's and is counted by it.
    return Finding("bounded" if moved <= bound else "succeeds", bound, moved)


def _renamed_population(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """H5: another study on the same people, for which `population` in node.toml is given another name."""
    institution = Institution(folder / "hospital")
    institution.seal()
    cap = 2.0
    institution.asked(manifest(run="first"))
    spent = institution.spent()
    institution.name_population("patients of the second study")
    try:
        institution.seal()
        institution.asked(manifest(run="second"))
    except PrivacyError as refusal:
        return Finding("refused", cap, str(refusal)[:200])
    total = institution.spent()
    return Finding("succeeds" if total > 1.5 * spent else "bounded", spent, total)


def _many_columns(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """M5: a model of as many columns as the institution has, far above what its policy lets be computed."""
    count = 20_000
    schema = (
        f"units = {UNITS}\n"
        'features = [{ kind = "category", name = "age", other = "zero", categories = ['
        + ", ".join(f'"{n}"' for n in range(count))
        + ']}]\ntarget = { name = "sick", kind = "binary", positive = ["1"], negative = ["0"] }\n'
    )
    institution = Institution(folder / "hospital", rows(), schema=schema)
    institution.seal()
    column = {"kind": "category", "name": "age", "other": "zero", "categories": [str(n) for n in range(count)]}
    asked = manifest(**{"schema.features": [column], "model.dimension": count + 1, "mechanism.noise_multiplier": 30.0})
    held: list[int] = []

    class Weighed(Shelf):
        def records(
            self,
            manifest: Manifest,
            schema: Schema,
            data: DataSet,
            sealed: Sealed,
            extract: Extract = unknown_code,
            excluded: ExclusionList = NOBODY,
        ) -> Records:
            found = super().records(manifest, schema, data, sealed, extract, excluded)
            assert isinstance(found.rows, DenseRows)
            held.append(found.rows.values.nbytes)
            return found

    heard = _heard_with(institution, asked, Weighed)
    largest = 1001 * UNITS * 2
    measured = max(held, default=0)
    if measured > largest:
        return Finding("succeeds", largest, measured)
    return Finding("refused", largest, f"{measured} bytes; {heard}"[:200])


def _heard_with(institution: Institution, asked: Manifest, shelf: type[Shelf]) -> str:
    made = institution.gate

    def gate() -> Any:
        found = made()
        found.shelf = shelf(found.settings)
        return found

    institution.gate = gate  # type: ignore[method-assign]
    return institution.heard(asked)


def _many_sizes(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """M4: as many parties as a policy may admit, each of another size, so that each has another epsilon to compute."""
    parties = [{"name": "hospital-a", "sampler": {"kind": "wor", "units": UNITS, "batch": 5}}]
    parties += [{"name": f"p{n}", "sampler": {"kind": "wor", "units": 1000 + n, "batch": 45}} for n in range(99)]
    # A name of its own: what was verified once in a process is remembered.
    asked = manifest(
        parties=parties,
        run=f"sizes-{secrets.token_hex(4)}",
        **{"mechanism.noise_multiplier": 1.2, "mechanism.steps": 39},
    )
    readings = 0

    def counted(*arguments: Any) -> Any:
        nonlocal readings
        readings += 1
        return gaussian_reading(*arguments)

    following, lying = (f"parley.privacy.{module}:gaussian_reading" for module in ("claim", "lying"))
    with removed(Guard("counter", following, counted)), removed(Guard("counter", lying, counted)):
        verify(asked)
    bound = 2 * MOST_READINGS  # against servers that follow, and if one lies
    return Finding("bounded" if readings <= bound else "succeeds", bound, readings)


ODD: dict[str, Any] = {
    "schema.bits": 1100,
    "schema.records_per_unit": 0,
    "schema.intercept": 2,
    "schema.unit": 5,
    "schema.nonzeros": -1,
    "schema.features": {"count": -5, "low": 0.0, "high": 1.0},
    "schema.features.0.name": 5,
    "schema.features.0.low": "x",
    "schema.features.0.high": True,
    "schema.features.0.spread": 0.0,
    "schema.features.2.categories": [1, 2],
    "schema.features.2.missing": 7,
    "schema.target.kind": 3,
    "schema.target.positive": [1],
    "schema.target.spread": -1.0,
    "schema.delimiter": ";;",
    "schema.skip": -300,
    "schema.header": False,
    "schema.missing": ["Jane Doe"],
    "schema.format": "npz",
}
"""Values that no schema of a manifest may have, of fields that it has and of fields that are an institution's own."""


def _odd_fields(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """M6: fields of another type or out of range: each is refused by name before anything is read."""
    institution = Institution(folder / "hospital")
    institution.seal()
    gate = institution.gate()
    passed = []
    try:
        for index, (path, value) in enumerate(ODD.items()):
            changes = {path: value} | ({"mechanism.unit_column": "5"} if path == "schema.unit" else {})
            try:
                gate.decide(manifest(run=f"odd-{index}", **changes))
                passed.append(path)
            except (RefusedRunError, ManifestError):  # by the party, or before there is a manifest at all
                continue
            except Exception as error:
                passed.append(f"{path}: {type(error).__name__}")
    finally:
        gate.close()
    return Finding("succeeds" if passed else "refused", 0, ", ".join(passed) or f"all {len(ODD)} refused")


def _one_cell(folder: Path, _: tuple[Guard, ...]) -> Finding:
    """M7: the type in which all rows are kept, and so how long every answer takes, by one cell of one record."""
    kinds = []
    for name, age in (("young", "26"), ("old", "90")):
        institution = Institution(folder / name, [f"{age},80,none,1", *["25,80,none,0"] * (UNITS - 1)])
        institution.seal()
        asked = manifest(
            **{
                "schema.features": [{"name": "age", "low": 20.0, "high": 90.0, "centre": 25.0, "spread": 2.0}],
                "model.dimension": 2,
            }
        )
        gate = institution.gate()
        try:
            institution._verify(gate, asked)
            found = gate.decide(asked)
            contributor = gate.contributor(asked, found)  # type: ignore[arg-type]
            assert isinstance(contributor.records.rows, DenseRows)
            kinds.append(contributor.records.rows.values.dtype.name)
        finally:
            gate.close()
    return Finding("succeeds" if len(set(kinds)) > 1 else "bounded", "one type", " | ".join(kinds))


def _no_judgement(held: Holding, wanted: Schema) -> None:
    return None


def _unchecked_seal(path: Path, data: DataSet) -> Sealed:
    """A seal is taken at its word, whatever the files hold by now."""
    from parley.party.seal import _digest, _read_seal

    seal, schema = _read_seal(path), holding_bytes(data.schema)
    fresh = tuple(_digest(file) for file in data.files)
    return Sealed(holding_from_bytes(schema), replace(seal, files=fresh))


def _no_look(data: Data, holding: Holding) -> Fit:
    """Sealed as they are."""
    return Fit(records=holding.units, units=holding.units)


def _read_as_the_manifest_says(
    self: Shelf, manifest: Manifest, schema: Schema, held: DataSet, sealed: Sealed,
    extract: Extract = unknown_code, excluded: object = None,
) -> Records:  # fmt: skip
    """The file's columns by the names that a manifest gives them."""
    layout = sealed.holding.layout
    names = manifest.regulariser.body.get("columns")
    if names:
        layout = type(layout)(header=False, skip=1, columns=tuple(names))
    data = read(held.files, layout, schema.target.name)
    return encode(data, schema, layout)


def _narrow(cls: type[DenseRows], values: NDArray[np.number], bits: int, reach: object = None) -> DenseRows:
    """The narrowest type that holds these values."""
    kinds = (np.uint8, np.int16, np.int32)
    held: NDArray[np.number] = next(
        values.astype(k) for k in kinds if np.iinfo(k).min <= values.min() and values.max() <= np.iinfo(k).max
    )
    squared = np.einsum("ij,ij->i", held.astype(np.float64), held.astype(np.float64))
    return cls(held, Norms.of(squared, bits), bits)


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


GUARDS: tuple[Guard, ...] = (
    Guard("schema-equals-the-institutions", "parley.party.data:judge", _no_judgement),
    Guard("rows-fit-by-public-bounds", "parley.learning.schema:Schema._longest_squared", property(lambda self: 0)),
    Guard("seal-covers-the-files", "parley.party.seal:verified", _unchecked_seal),
    Guard("seal-covers-every-column", "parley.party.seal:fit", _no_look),
    Guard("form-of-files-is-the-institutions", "parley.party.data:Shelf.records", _read_as_the_manifest_says),
    Guard("one-population", "parley.privacy.ledger:Ledger.require_own", lambda self, *given: None),
    Guard("limits-on-manifests", "parley.federation.policy:_small", _nothing),
    Guard("worst-parties-only", "parley.privacy.claim:worst", lambda events, chosen: events),
    Guard("types-of-a-schema", "parley.learning.schema:Schema.__post_init__", lambda self: None),
    Guard("types-by-public-bounds", "parley.learning.rows:DenseRows.of", classmethod(_narrow)),
)

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "C1",
        "A coordinator leaves a category out of a column, so that a party refuses if some record has it.",
        ("schema-equals-the-institutions",),
        _omitted_category,
    ),
    Attack(
        "foreign-column",
        "A coordinator names a column that the institution did not offer, and sees from a refusal what a cell holds.",
        ("schema-equals-the-institutions",),
        _foreign_column,
    ),
    Attack(
        "spread-threshold",
        "A coordinator chooses a spread at which rows above a threshold are too long, so that a party fails by them.",
        ("rows-fit-by-public-bounds",),
        _spread_as_threshold,
    ),
    Attack(
        "edited-records",
        "A coordinator sees by a party's answer whether a record that was changed since is readable.",
        ("seal-covers-the-files",),
        _edited_after_sealing,
    ),
    Attack(
        "subset-of-columns",
        "A coordinator asks with a column and without it, and sees by the answers whether a cell in it is readable.",
        ("seal-covers-every-column",),
        _subset_of_columns,
    ),
    Attack(
        "C2",
        "A coordinator renames a file's columns, so that single visits are counted in place of patients.",
        ("form-of-files-is-the-institutions",),
        _visits_as_patients,
    ),
    Attack(
        "H5",
        "The same people come under another population's name, and with it to a budget that is not spent yet.",
        ("one-population",),
        _renamed_population,
    ),
    Attack(
        "M4-party",
        "A coordinator lists parties of so many sizes that a manifest takes each node minutes to verify.",
        ("worst-parties-only",),
        _many_sizes,
    ),
    Attack(
        "M5",
        "A coordinator asks for so many encoded columns that a party runs out of memory, at every start again.",
        ("limits-on-manifests",),
        _many_columns,
    ),
    Attack(
        "M6",
        "A coordinator sends fields of another type, which a party neither refuses nor survives.",
        ("types-of-a-schema",),
        _odd_fields,
    ),
    Attack(
        "M7",
        "One cell of one record decides how long every answer of a party takes.",
        ("types-by-public-bounds",),
        _one_cell,
    ),
)
