"""A round's question as it came over the wire: refused, by type, unless the admitted manifest allows exactly it.

Everything here is decided by public facts. What a question may ask of the records is decided by the manifest's
mechanism (`Contributor.check`); what it says must be what its digest covers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parley.federation.kinds import asks, kind_of
from parley.federation.manifest import Manifest
from parley.federation.question import LocalFit, answer_length
from parley.federation.rounds import DIGEST_BYTES, PIECE_BYTES, point_digest, query_digest
from parley.learning.contributor import FRAMED, KINDS, MOST_CANDIDATES, SMALLEST_SCALE, Query
from parley.party.errors import refused
from parley.privacy.errors import InvalidParameterError
from parley.v1 import coordinator_pb2

Floats = NDArray[np.float64]
Fetch = Callable[[bytes, int], bytes]
"""A piece of a point, by digest and offset."""

HELD = 2
"""Points kept for the next question: θ_t becomes θ_{t−1}."""
POINTS = {
    **dict.fromkeys(FRAMED, 2), "framed gradient": 3, "framed norms": 3,
    "gradient": 2, "losses": MOST_CANDIDATES, "norms": 1, "solution": 1,
}  # fmt: skip
"""At most; what a frame is made of comes first, so that it is held."""


def check_form(question: coordinator_pb2.Round, manifest: Manifest) -> None:
    """Refuse a question that the manifest does not allow in any round, or that is not what its digest says."""
    index, kind, dimension = question.index, question.kind, manifest.model.dimension
    if not index < manifest.releases:
        raise refused("malformed", f"round {index} is asked of a run of {manifest.releases:,} rounds", LEAVE)
    if kind not in KINDS:
        raise refused("malformed", f"a query of kind {kind[:40]!r} is asked", f"ask {', '.join(KINDS)}")
    algorithm = manifest.algorithm.name
    if not asks(algorithm, manifest.releases, index, kind):
        wanted = kind_of(algorithm, manifest.releases, index) or "nothing"
        raise refused("malformed", f"round {index} of {algorithm} is asked {kind}", f"it may ask {wanted}")
    if not (math.isfinite(question.scale) and SMALLEST_SCALE <= question.scale <= 1 / SMALLEST_SCALE):
        raise refused("malformed", f"round {index} has the scale {question.scale}", "give a positive, sane one")
    if not 1 <= len(question.points) <= POINTS[kind]:
        raise refused("malformed", f"round {index} has {len(question.points)} points", f"give 1 to {POINTS[kind]}")
    for point in question.points:
        if len(point.digest) != DIGEST_BYTES or point.size != 8 * dimension or len(point.data) > PIECE_BYTES:
            raise refused(
                "malformed", f"a point of round {index} has {point.size} bytes", f"{8 * dimension} are a model's"
            )
    if question.HasField("local") != (kind == "solution"):
        raise refused(
            "malformed", f"round {index} asks {kind} with or without a fit", "describe one for solutions only"
        )
    length = answer_length(kind, len(question.points), dimension)
    if question.length != length:
        raise refused("malformed", f"round {index} asks for {question.length} numbers", f"{length} answer it")
    if question.query_digest != digest_of(question, manifest.digest):
        raise refused("contradiction", f"the digest of round {index} is not that of its question", LEAVE)


LEAVE = "find out what the coordinator is running"


def digest_of(question: coordinator_pb2.Round, manifest_digest: bytes) -> bytes:
    """Over the question's fields, as they are."""
    points, local = [point.digest for point in question.points], _local(question)
    return query_digest(manifest_digest, question.index, question.kind, question.scale, points, question.length, local)


def _local(question: coordinator_pb2.Round) -> LocalFit | None:
    """The fit that is asked for; refused where no party could make it."""
    if not question.HasField("local"):
        return None
    fit = question.local
    try:
        return LocalFit(fit.method, fit.steps, fit.step, fit.strength, fit.reach)
    except InvalidParameterError as error:
        raise refused("malformed", str(error)) from None


@dataclass
class Points:
    """The models that this party has seen last, by digest."""

    held: dict[bytes, Floats] = field(default_factory=dict)

    def query(self, question: coordinator_pb2.Round, fetch: Fetch) -> Query:
        """The question with its points, each checked against its digest."""
        found: dict[bytes, Floats] = {}
        for point in question.points:
            held = self.held.get(point.digest)
            if held is None:
                held = found.get(point.digest)
            found[point.digest] = _received(point, fetch) if held is None else held
        ordered = tuple(found[point.digest] for point in question.points)
        self.held = {point.digest: found[point.digest] for point in question.points[:HELD]}
        return Query(question.index, ordered, question.kind, question.scale, _local(question))


def _received(point: coordinator_pb2.Point, fetch: Fetch) -> Floats:
    data = point.data
    if len(data) < point.size:
        pieces, have = [data], len(data)
        while have < point.size:
            piece = fetch(point.digest, have)
            if not 0 < len(piece) <= min(PIECE_BYTES, point.size - have):
                raise refused("malformed", f"a point's piece at {have} has {len(piece)} bytes", LEAVE)
            pieces.append(piece)
            have += len(piece)
        data = b"".join(pieces)
    if len(data) != point.size or point_digest(data) != point.digest:
        raise refused("malformed", "a point is not what its digest says", LEAVE)
    found = np.frombuffer(data, "<f8")
    if not np.isfinite(found).all():
        raise refused("malformed", "a point has numbers that are not finite", "the run has diverged: stop it")
    return found
