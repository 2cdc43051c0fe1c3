"""Made-up sparse records for the training benchmark: bytes of the CSPRNG, no data set, nothing to learn from."""

from pathlib import Path

from parley.federation.manifest import Manifest, Operator
from parley.federation.start_and_stop import PACKED, Uploads
from parley.learning.columns import Target, Uniform
from parley.learning.holding import Layout
from parley.learning.schema import Schema
from parley.mpc.parts import USUAL, NoiseParts
from parley.mpc.randomness import Csprng
from parley.study.manifests import draft

RECORDS = 1000
"""Per party."""
NONZEROS = 14
"""Per record: as in a9a."""
BATCH = 50
"""Per party and round, the core paper's b = 500 for ten parties."""
EPSILON, DELTA = 1.0, 1e-5


def write_party(path: Path, place: int, dimension: int) -> None:
    """LIBSVM text: `RECORDS` rows of `NONZEROS` ones each, labels by coin flip."""
    rng = Csprng(place.to_bytes(32, "little"))
    columns = rng.words(RECORDS * NONZEROS).reshape(RECORDS, NONZEROS) % dimension
    labels = rng.words(RECORDS) % 2
    lines = []
    for label, row in zip(labels, columns, strict=True):
        cells = " ".join(f"{column + 1}:1" for column in sorted({int(each) for each in row}))
        lines.append(f"{'+1' if label else '-1'} {cells}")
    path.write_text("\n".join(lines) + "\n")


LAYOUT = Layout("libsvm")


def schema(dimension: int) -> Schema:
    """Zero-one features, at most `NONZEROS` of them in a row."""
    target = Target("label", "binary", positive=("+1", "1"), negative=("-1",))
    return Schema(features=Uniform(dimension, 0.0, 1.0), target=target, nonzeros=NONZEROS)


def study(
    run: str, parties: int, dimension: int, rounds: int, parts: NoiseParts = USUAL, uploads: Uploads = PACKED
) -> Manifest:
    """A DDP-SRM run of so many rounds; the noise is calibrated, so this takes seconds and imports scipy."""
    records = parties * RECORDS
    batch = parties * BATCH
    return draft(
        run=run,
        federation="bench",
        model={"kind": "logistic"},
        algorithm={
            "name": "ddp-srm",
            "gradient_norm": 1.0,
            "difference_norm": 0.1,
            "gamma": 0.1,
            "batch": batch,
            "passes": (2 * (rounds - 1) + 1) * batch / records,
            "step": 0.1,
        },
        schema=schema(dimension),
        sizes={f"party-{place + 1}": RECORDS for place in range(parties)},
        epsilon=EPSILON,
        delta=DELTA,
        aggregators=(Operator("north", "North Trust"), Operator("south", "South Foundation")),
        coordinator=Operator("lead", "Lead Institute"),
        minimum_parties=parties,
        deadline_seconds=240.0,
        parts=parts,
        uploads=uploads,
    )
