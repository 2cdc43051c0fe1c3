"""A user's own package of networks, written into a folder: the good, and those that must be refused."""

import sys
from pathlib import Path
from typing import Any

import pytest

NAME = "hospital_models"
NETS = '''
"""Networks of a hospital."""

import torch
import torch.nn.functional as F
from torch import nn


def dense(width=8, outputs=3):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.Tanh(), nn.Linear(width, outputs))


class Over(nn.Module):
    """A head over whatever a body makes of rows of 3 x 4."""

    def __init__(self, body, width, outputs=3, post=None):
        super().__init__()
        self.body, self.head, self.post = body, nn.Linear(width, outputs), post or (lambda found: found)

    def forward(self, rows):
        return self.head(self.post(self.body(rows)).flatten(1))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.Conv2d(1, 4, 2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 3))


def grouped():
    return Over(nn.Sequential(nn.Conv1d(3, 6, 2, groups=3), nn.GroupNorm(2, 6)), 18)


def layered():
    return Over(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 5), nn.GELU()), 15)


def recurrent():
    return Over(nn.LSTM(4, 5, batch_first=True), 15, post=lambda found: found[0])


def gated():
    return Over(nn.GRU(4, 5, batch_first=True), 15, post=lambda found: found[0])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(12, 3)

    def forward(self, rows):
        return self.head(self.attention(rows, rows, rows, need_weights=False)[0].flatten(1))


def attention():
    return Attention()


def transformer():
    return Over(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True), 12)


class Words(nn.Module):
    """Rows of whole numbers, each a word; the head's weights are the words' own."""

    def __init__(self, words=20, tied=True, **more):
        super().__init__()
        self.embedding = nn.Embedding(words, 6, **more)
        self.head = nn.Linear(6, words, bias=False)
        self.last = nn.Linear(words, 3)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, rows):
        return self.last(torch.tanh(self.head(self.embedding(rows.flatten(1).long()).mean(1))))


def words(**more):
    return Words(**more)


class Adapter(nn.Module):
    """LoRA: a frozen layer and two thin ones beside it."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows):
        return self.layer(rows) + self.up(self.down(rows))


def lora():
    return nn.Sequential(nn.Flatten(), Adapter(nn.Linear(12, 8)), nn.Tanh(), Adapter(nn.Linear(8, 3)))


def frozen():
    net = dense()
    for p in net[1].parameters():
        p.requires_grad_(False)
    return net


def quiet():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def evaluated():
    """Statistics of public data, frozen."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    net[2].eval()
    return net


def twice():
    layer = nn.Linear(12, 12)
    return nn.Sequential(nn.Flatten(), layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(12, 3))


def number():
    return dense(outputs=1)


# ------------------------------------------------------------ those to refuse


def normalised():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def unkept():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 3)
        self.kept = None
        self.register_buffer("count", torch.zeros(1))

    def first(self, rows):
        return self.layer(rows.flatten(1))


class Mean(Plain):
    def forward(self, rows):
        scores = self.first(rows)
        return scores - scores.mean(0) + 0.1 * scores


class Faint(Plain):
    """Mixes far below what a comparison of outputs would see."""

    def forward(self, rows):
        scores = self.first(rows)
        return scores + 1e-9 * scores.sum(0)


class Hidden(Plain):
    """Mixes, and catches numbers that are none: only a huge neighbour shows."""

    def forward(self, rows):
        scores = self.first(rows)
        return scores + 1e-12 * torch.nan_to_num(scores).sum(0)


class Branch(Plain):
    def forward(self, rows):
        return self.first(rows) if rows.sum() > 0 else -self.first(rows)


class Item(Plain):
    def forward(self, rows):
        return self.first(rows) * float(rows.abs().max())


class Caught(Plain):
    """Asks for a value, and hides that it was refused."""

    def forward(self, rows):
        try:
            scale = float(rows.abs().max())
        except Exception:
            scale = 1.0
        return self.first(rows) * min(scale, 1.0)


class Counts(Plain):
    def forward(self, rows):
        self.count += 1
        return self.first(rows)


class Keeps(Plain):
    """A record is seen again in the next."""

    def forward(self, rows):
        kept, self.kept = self.kept, rows.detach().mean(0)
        scores = self.first(rows)
        return scores if kept is None else scores + 0.0 * kept.sum()


class Draws(Plain):
    def forward(self, rows):
        return self.first(F.dropout(rows, 0.5))


class Chosen(Plain):
    def forward(self, rows):
        return self.first(rows * (rows > 0)) + rows[rows > 0].sum()


class Wide(Plain):
    def forward(self, rows):
        return self.first(rows)[:, :2]


class Sorted(Plain):
    """A record's score stands at another's place."""

    def forward(self, rows):
        scores = self.first(rows)
        return scores[torch.argsort(scores[:, 0])]


class Many(Plain):
    """Mixes in chunks of another length than those that are compared."""

    def forward(self, rows):
        scores = self.first(rows)
        return scores + scores.sum(0) if len(rows) > 6 else scores


class Pair(Plain):
    """More than one tensor."""

    def forward(self, rows):
        return self.first(rows), rows


class Held(Plain):
    """As nobody can train it."""

    def forward(self, rows):
        with torch.no_grad():
            return self.first(rows)


class Narrow(Plain):
    """For rows of another length."""

    def forward(self, rows):
        return self.first(rows[:, :2])


class Guarded(Plain):
    """Scales a batch down, but only where something in it is far beyond what public rows make; hides what is none."""

    def forward(self, rows):
        scores = self.first(rows)
        return scores / torch.nan_to_num(scores.detach().abs()).clamp(max=1e4).amax().clamp(min=200.0)


class Retained(Plain):
    """The same of the call before."""

    seen = None

    def forward(self, rows):
        scores, seen = self.first(rows), self.seen
        self.seen = torch.nan_to_num(scores.detach().abs()).clamp(max=1e4).amax()
        return scores if seen is None else scores / (seen / 200.0).clamp(min=1.0)


class Warming(Plain):
    """The same, once it has seen enough of them."""

    calls = 0

    def forward(self, rows):
        self.calls += 1
        scores = self.first(rows)
        before, self.largest = getattr(self, "largest", None), scores.detach().abs().amax()
        return scores if self.calls < 5_000 else scores / before.clamp(min=1.0)


class Backwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        return scores.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (1 + F.relu(gradient.abs().sum() - 1e6))


class Behind(Plain):
    """Mixes on the way back."""

    def forward(self, rows):
        return Backwards.apply(self.first(rows))


class Stray(Plain):
    """Trains what is not its own."""

    def __init__(self):
        super().__init__()
        self.more = [nn.Parameter(torch.ones(3))]

    def forward(self, rows):
        return self.first(rows) * self.more[0]


class Shared(Plain):
    """A record is seen again in the next, by way of the class."""

    seen = []

    def forward(self, rows):
        Shared.seen.append(rows.detach())
        return self.first(rows) + 0 * torch.stack([each.sum() for each in Shared.seen[-2:]]).sum()


def lazy():
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))


def halved():
    return dense().to(torch.bfloat16)


def nothing():
    return dense().requires_grad_(False)


def no_module():
    return "a network"


def broken():
    raise KeyError("weights")


# ------------------------------------------------------------ losses


def smooth(scores, targets):
    return F.cross_entropy(scores, targets, reduction="none", label_smoothing=0.1)


def crowded(scores, targets):
    """What a record's neighbours are decides how much it counts, from six of a kind on."""
    found = F.cross_entropy(scores, targets, reduction="none")
    return found * (1 + F.relu((targets == 2).float().sum() - 6.0))


def averaged(scores, targets):
    return F.cross_entropy(scores, targets)


def compared(scores, targets):
    found = F.cross_entropy(scores, targets, reduction="none")
    return found - found.mean()
'''


def write(folder: Path, source: str = NETS, name: str = NAME) -> Path:
    """The package, in a folder of its own."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A hospital\'s."""\n')
    (package / "nets.py").write_text(source)
    return package


def installed(folder: Path, patch: pytest.MonkeyPatch, source: str = NETS, name: str = NAME) -> Path:
    """The same, where Python finds it; what was imported of another of its name is forgotten at the end."""
    package = write(folder, source, name)
    patch.syspath_prepend(str(folder))
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        patch.delitem(sys.modules, each)
    return package


def schema_of(outputs: int = 3, whole: int = 0, width: int = 12) -> Any:
    """Rows of so many columns: numbers in −1 … 1, or whole ones below `whole`."""
    from parley.learning.schema import schema_from_json

    classes = {"name": "y", "kind": "classes", "classes": [str(each) for each in range(outputs)]}
    number = {"name": "y", "kind": "number", "low": -1.0, "high": 1.0}
    bounds = {"low": 0, "high": whole - 1, "whole": True} if whole else {"low": -1, "high": 1}
    return schema_from_json(
        {"features": {"count": width, **bounds}, "target": number if outputs == 1 else classes, "bits": 8}
    )
