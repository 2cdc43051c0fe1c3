"""Whitened patches of public pictures as a frozen extractor (Coates, Lee and Ng 2011): 1,600 columns of a picture.

400 centres of 6 x 6 patches by k-means on CIFAR-100, the part of it that `pretrain` is given; a patch's answer is how
much nearer than the average a centre is, and answers are averaged over the four quarters of the picture.
"""

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from parley.networks import weights

CENTRES, SIDE, STRIDE, QUARTERS = 400, 6, 2, 2
WIDTH = 3 * SIDE * SIDE
FLOOR = 10 / 65025
"""Added to a patch's variance, in squared units of a full pixel: flat patches stay flat."""
SHAPES = {"mean": (WIDTH,), "whiten": (WIDTH, WIDTH), "centres": (CENTRES, WIDTH)}


class Patches(nn.Module):  # type: ignore[misc]  # the type checker does not read torch
    """Pictures float[n, 3, 32, 32] from 0 to 1 to float[n, 1600]."""

    mean: torch.Tensor
    whiten: torch.Tensor
    centres: torch.Tensor

    def __init__(self, arrays: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name in SHAPES:
            self.register_buffer(name, arrays[name])

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        columns = functional.unfold(pictures, SIDE, stride=STRIDE)
        count, _, places = columns.shape
        patches = (levelled(columns.transpose(1, 2).reshape(-1, WIDTH)) - self.mean) @ self.whiten
        inner = (patches * patches).sum(1, keepdim=True) - 2 * patches @ self.centres.T
        distances = (inner + (self.centres * self.centres).sum(1)).clamp(min=0).sqrt()
        nearer = (distances.mean(1, keepdim=True) - distances).clamp(min=0)
        side = round(places**0.5)
        planes = nearer.view(count, places, CENTRES).transpose(1, 2).reshape(count, CENTRES, side, side)
        return functional.adaptive_avg_pool2d(planes, QUARTERS).flatten(1)


def levelled(patches: torch.Tensor) -> torch.Tensor:
    """Each patch less its mean, over its deviation."""
    variance = patches.var(1, keepdim=True)
    return (patches - patches.mean(1, keepdim=True)) / (variance + FLOOR).sqrt()


def learnt(pictures: torch.Tensor, generator: torch.Generator, *, samples: int = 60_000, steps: int = 12) -> Patches:
    """The centres of these pictures' patches."""
    patches = functional.unfold(pictures, SIDE, stride=4).transpose(1, 2).reshape(-1, WIDTH)
    patches = levelled(patches[torch.randperm(len(patches), generator=generator)[:samples]])
    mean = patches.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((patches - mean).T))
    whiten = vectors @ torch.diag((values + 0.1).rsqrt()) @ vectors.T
    patches = (patches - mean) @ whiten
    centres = torch.randn(CENTRES, WIDTH, generator=generator) * 0.1
    for _ in range(steps):
        nearest = (patches @ centres.T - (centres * centres).sum(1) / 2).argmax(1)
        members = torch.bincount(nearest, minlength=CENTRES).clamp(min=1)
        centres = torch.zeros(CENTRES, WIDTH).index_add_(0, nearest, patches) / members[:, None]
    return Patches({"mean": mean, "whiten": whiten, "centres": centres})


def extract(pictures: torch.Tensor) -> torch.Tensor:
    """Float[n, 3, 32, 32] from 0 to 1 to float[n, 1600], by the centres that come with parley."""
    with torch.no_grad():
        found: torch.Tensor = shipped()(pictures)
    return found


@cache
def shipped() -> Patches:
    """Read once."""
    return Patches(weights.read("patches.bin", SHAPES))
