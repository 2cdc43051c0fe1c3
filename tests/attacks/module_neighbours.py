"""The same search (tests/attacks/neighbours.py) for PyTorch modules: six families, on all three routes.

Half of the questions are wild. The others aim at the bound. A family's body is odd where its biases are zero, and the
head's weights are zero too: then only the head has a gradient, r·(h, 1), and records of opposite h opposite ones. A
bias of the head at the point before, and no other change, turns every residual the same way.
"""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.learning.contributor import Query
from parley.learning.errors import PartyError
from parley.models.module_spec import ModuleSpec
from parley.mpc.errors import MpcError
from parley.privacy.errors import PrivacyError
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.sampling import FixedSize
from tests.attacks.neighbours import (
    ATTEMPTS,
    CHANGED,
    COMMON,
    EXTREMES,
    SCALES,
    Question,
    Search,
    Target,
    _clip,
    _encoding,
    _party,
    _point,
    _try,
)

if TYPE_CHECKING:
    from parley.models.module import TorchModel

Floats = NDArray[np.float64]
Models = Mapping[str, "TorchModel"]

NAME = "fuzzed_models"
NETS = """
import torch
from torch import nn


class Over(nn.Module):
    def __init__(self, body, width, post=None):
        super().__init__()
        self.body, self.head, self.post = body, nn.Linear(width, 1), post or (lambda found: found)

    def forward(self, rows):
        return self.head(3.0 * self.post(self.body(rows)).flatten(1))


def convolutional():
    return Over(nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv2d(1, 4, 2, padding=1), nn.Tanh()), 80)


def normalised():
    return Over(nn.Sequential(nn.Conv1d(3, 6, 2), nn.GroupNorm(2, 6), nn.Tanh()), 18)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, rows):
        return rows + self.attention(rows, rows, rows, need_weights=False)[0]


def attention():
    return Over(Attention(), 12)


def words():
    return Over(nn.Sequential(nn.Flatten(), Words()), 5)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 5)

    def forward(self, rows):
        return self.embedding(rows.long()).mean(1)


class Adapter(nn.Module):
    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, rows):
        return self.layer(rows) + self.up(self.down(rows))


def lora():
    return Over(nn.Sequential(nn.Flatten(), Adapter(nn.Linear(12, 8, bias=False)), nn.Tanh()), 8)


def recurrent():
    return Over(nn.RNN(4, 5, batch_first=True), 15, post=lambda found: found[0])
"""
FAMILIES = ("convolutional", "normalised", "attention", "words", "lora", "recurrent")
ROUTES = {"convolutional": "book", "normalised": "vmap", "recurrent": "loop"}
"""Of these families at least, so that each route is among what is searched."""
COLUMNS, WORDS, BITS = 12, 20, 8
TARGETS = tuple(
    Target(kind, family, units)
    for kind in ("gradient", "two points", "losses", "norms")
    for family in FAMILIES
    for units in (False, True)
)


def spec_of(family: str) -> ModuleSpec:
    whole = family == "words"
    reach = (0.0, WORDS - 1.0) if whole else (-1.0, 1.0)
    return ModuleSpec(f"torch:{NAME}.nets:{family}", {}, (3, 4), "binary-cross-entropy", reach=(reach,), whole=whole)


def search(models: Models, tries: int, seed: int, until_broken: bool = False) -> Search:
    """Try at least so many pairs of neighbours, every target in turn."""
    rng, found = np.random.default_rng(seed), Search(seed, reached=dict.fromkeys(TARGETS, 0.0))
    for number, target in enumerate(itertools.cycle(TARGETS)):
        if found.tried >= tries or (until_broken and found.broken):
            return found
        aimed = bool((number // len(TARGETS)) % 2)
        for _ in range(ATTEMPTS):
            try:
                question = _question(rng, models[target.model], target, aimed)
                encoding = _encoding(rng, question, coarse=0.05 if aimed else 0.3)
                _party(question, encoding, 0).check(question.query)
            except (PartyError, PrivacyError, MpcError) as error:
                found.refused[type(error).__name__] += 1
                continue
            _try(found, question, encoding)
            break
    raise AssertionError  # the targets never end


def _question(rng: np.random.Generator, model: "TorchModel", target: Target, aimed: bool) -> Question:
    two = target.kind == "two points"
    clip = _clip(rng, two, aimed)
    everyone = COMMON + 1
    noise = float(rng.choice([0.3, 0.5, 0.7, 1.2, 2.0, 50.0]))
    cohort = Cohort("a", FixedSize(everyone, everyone))
    mechanism = Mechanism((cohort,), clip, noise, 3, Unit("unit" if target.units else None))
    bits = 0 if target.model == "words" else BITS
    points, scale, values, labels = (_aimed if aimed else _wild)(rng, model, target)
    query = Query(1 if two else 0, points, "gradient" if two else target.kind, scale)
    return Question(target, model, mechanism, query, values, labels, bits, sparse=False)


Drawn = tuple[tuple[Floats, ...], float, NDArray[np.int64], Floats]


def _rows(rng: np.random.Generator, target: Target) -> NDArray[np.int64]:
    shape = (COMMON + CHANGED, COLUMNS)
    if target.model == "words":
        return rng.integers(0, WORDS, shape)
    found: NDArray[np.int64] = rng.integers(-(1 << BITS), (1 << BITS) + 1, shape)
    return np.where(rng.random(shape) < rng.choice([0.1, 1.0]), found, 0)


def _wild(rng: np.random.Generator, model: "TorchModel", target: Target) -> Drawn:
    """Any numbers as a model's weights: what float32 cannot hold, and what makes every activation overflow."""
    count = {"losses": int(rng.integers(2, 6)), "two points": 2}.get(target.kind, 1)
    points = [_point(rng, model.dimension) for _ in range(count)]
    if rng.random() < 0.5:
        points = [np.clip(each, -30, 30) * float(rng.choice([1e-3, 0.1, 1.0, 1e6])) for each in points]
    if count > 1 and rng.random() < 0.5:
        points[-1] = points[0] + rng.normal(0, 1e-6, model.dimension)
    places = rng.random(model.dimension) < 0.02
    points[0] = np.where(places, rng.choice(EXTREMES, model.dimension), points[0])
    labels = rng.integers(0, 2, COMMON + CHANGED).astype(np.float64)
    return tuple(points), float(rng.choice(SCALES)), _rows(rng, target), labels


def _aimed(rng: np.random.Generator, model: "TorchModel", target: Target) -> Drawn:
    theta, bias = _odd(rng, model)
    other = theta.copy()
    other[bias] += 2.0
    odd = np.arange(COMMON + CHANGED) % 2
    row = rng.integers(1 << (BITS - 1), (1 << BITS) + 1, (1, COLUMNS)) * rng.choice([-1, 1], (1, COLUMNS))
    values = np.where(odd[:, None] == 1, row, -row)
    if target.model == "words":
        values = np.repeat(odd[:, None], COLUMNS, axis=1)
    if target.kind in ("losses", "norms"):
        # Of one row, and of the other label.
        values, labels = np.repeat(values[1:2], len(values), axis=0), odd.astype(np.float64)
        return ((theta, other), 1e6, values, labels) if target.kind == "losses" else ((other,), 100.0, values, labels)
    points = (theta, other) if target.kind == "two points" else (theta,)
    return points, 1e3, values, np.ones(len(values))


def _odd(rng: np.random.Generator, model: "TorchModel") -> tuple[Floats, slice]:
    """Weights under which the body is odd and the head zero; where the head's bias is."""
    parts, start, bias = [], 0, slice(0)
    for name, shape in model.parameters:
        size = int(np.prod(shape))
        part = rng.normal(0, 1.0, size)
        if name.endswith("bias") or "bias_" in name or name == "head.weight":
            part[:] = 0.0
        elif len(shape) == 1:
            part[:] = 1.0
        if name == "body.1.embedding.weight":
            part = 4 * part.reshape(shape)
            part[1] = -part[0]
            part = part.ravel()
        if name == "head.bias":
            bias = slice(start, start + size)
        parts.append(part)
        start += size
    return np.concatenate(parts), bias


def installed(folder: Any) -> None:
    """As a user's package would be, beside nothing else."""
    home = folder / NAME
    home.mkdir(parents=True)
    (home / "__init__.py").write_text("")
    (home / "nets.py").write_text(NETS)
