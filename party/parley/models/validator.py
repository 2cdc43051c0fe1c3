"""What a module must be before it sees a record: tried on public rows, refused with the replacement to use.

The checks are of the module as it is built here, on this device, with these threads and this chunk. They are for honest
mistakes: an operator allows a package by its digest, because its code runs beside the records.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from parley.learning.errors import ModelError
from parley.models.chunks import FORWARD_ROWS, Chunks
from parley.models.isolation import mixed, place_matters
from parley.models.lineage import kept, mixing
from parley.models.module_spec import ModuleSpec
from parley.models.network import Network
from parley.models.probe import agree, probe_of
from parley.models.public_rows import bounds, public_point, public_rows
from parley.models.routes import Book, BookByPixel, Loop, Route, Vmapped
from parley.models.values import depends_on_values
from parley.models.verified_import import said

AGREEMENT = 1e-4
"""Of a route's gradients with the loop's, relative to their norm."""
TRIED = 4
"""Public records that routes are compared on."""
MEASURED_SECONDS = 0.3
MIXED = 1e-3
"""Of a batch's outputs from single ones: below it is a matter of rounding."""
NO_GRADIENT = (
    "its loss depends on no trained parameter: use them in forward(), without torch.no_grad(), .detach() or whole "
    "numbers in between"
)
LONG_REACH = 20.0
"""Beyond it a row's numbers saturate most networks: pixels as they are, up to 255."""
KNOWN: tuple[tuple[Any, Callable[[Any], bool], str], ...] = (
    (
        nn.modules.batchnorm._BatchNorm,
        lambda layer: layer.training or layer.running_mean is None,
        "mixes records: use nn.GroupNorm, or call .eval() on it in build() with statistics of public data",
    ),
    (
        nn.modules.instancenorm._InstanceNorm,
        lambda layer: layer.track_running_stats,
        "keeps statistics of records: set track_running_stats=False, or use nn.GroupNorm",
    ),
    (
        nn.Embedding | nn.EmbeddingBag,
        lambda layer: layer.max_norm is not None,
        "rewrites the weights that records look up: leave max_norm out",
    ),
    (nn.Embedding | nn.EmbeddingBag, lambda layer: layer.sparse, "has sparse gradients: leave sparse=True out"),
)
"""Layers, when they are refused, and what to use instead."""


@dataclass
class Findings:
    """What was found of a module on public rows."""

    spec: ModuleSpec
    chunks: Chunks
    problems: list[str] = field(default_factory=list)
    """Each with what to change; none, or it is refused."""
    notes: list[str] = field(default_factory=list)
    routes: dict[str, str] = field(default_factory=dict)
    """Each route that was tried, and what became of it."""
    records_per_second: float | None = None
    place_matters: bool | None = None
    """Whether a gradient's last bits differ with a record's place in a chunk. No harm, for places are drawn."""

    def require(self) -> None:
        """Refuses a module with problems."""
        if self.problems:
            raise ModelError("; ".join(self.problems))


def examine(network: Network, size: int, *, full: bool) -> Findings:
    """Chooses the fastest route that equals the loop; `full` checks everything, and measures."""
    found = Findings(network.spec, Chunks(network, Loop(network), size))
    if not full:
        found.chunks.route = _fastest(network, found)
        return found
    found.notes += network.notes
    reach = max(abs(end) for ends in network.spec.reach for end in ends)
    if reach > LONG_REACH and not network.spec.whole:
        found.notes.append(
            f"numbers of a row reach {reach:g}: bring them near 1 with the schema's low, high and spread"
        )
    found.problems += _mixing_layers(network)
    try:
        for look in (_fits, depends_on_values, _changes_or_mixes, kept, _fails_at_bounds):
            if not found.problems:
                wrong = look(network)
                found.problems += [f"{network.spec.kind}: {wrong}"] if wrong else []
        if not found.problems:
            _try(network, found)
    except ModelError:
        raise
    except Exception as error:
        shape = ", ".join(["records", *map(str, network.spec.input)])
        raise ModelError(
            f"{network.spec.kind} fails on public rows: {said(error)}: it is given a float32 tensor of shape "
            f"({shape}); make its first layer fit that, or change `input` or the columns"
        ) from error
    return found


def _try(network: Network, found: Findings) -> None:
    """Route, isolation, probe and speed of a module that has passed the rest."""
    found.chunks.route = _fastest(network, found)
    wrong = mixed(found.chunks)
    if wrong and found.chunks.route.name == Book.name:
        # The other routes show it one record at a time.
        found.routes[Book.name] = wrong
        found.chunks.route = _fastest(network, found, (Vmapped,))
        wrong = mixed(found.chunks)
    if wrong:
        found.problems.append(
            f"{network.spec.kind}: {wrong}: compute each record from its own numbers, and keep nothing from one call "
            "to the next"
        )
        return
    found.place_matters = place_matters(found.chunks)
    numbers = probe_of(network)
    if network.spec.probe and not agree(numbers, network.spec.probe):
        found.problems.append(
            f"{network.spec.kind} makes other numbers of public rows here than the manifest says: install the same "
            f"version of torch ({torch.__version__} here) and of what the package uses as whoever drafted it"
        )
        return
    found.spec = replace(network.spec, probe=network.spec.probe or numbers)
    found.records_per_second = _speed(found.chunks)


def _fits(network: Network) -> str | None:
    """Shapes, and whether it runs at all: raised before anything says it in other words."""
    inputs, targets = public_rows(network, 1)
    flat = network.flat(public_point(network))
    if network.losses(flat, inputs, targets).requires_grad:
        return "it trains what is no parameter of it: register it with nn.Parameter"
    if not network.losses(flat.requires_grad_(True), inputs, targets).requires_grad:
        return NO_GRADIENT
    return None


def _mixing_layers(network: Network) -> list[str]:
    """Layers that are known to look at several records at once, or to keep something of them."""
    found = []
    for name, layer in network.net.named_modules():
        for kind, bad, instead in KNOWN:
            if isinstance(layer, kind) and bad(layer):
                found.append(f"layer {name or 'itself'}, {type(layer).__name__}, {instead}")
    return found


def _changes_or_mixes(network: Network) -> str | None:
    """Passes over public rows: a record's output beside others is what it is alone, and nothing is drawn or kept."""
    flat = network.flat(public_point(network))
    inputs, targets = public_rows(network, TRIED + 1)
    before = {name: each.clone() for name, each in network.frozen.items()}
    # What a module keeps may be part of torch's graph: both passes are as training has them.
    leaf = flat.detach().requires_grad_(True)
    alone = torch.cat([network.scores(leaf, each) for each in inputs.split(1)]).detach()
    again = torch.cat([network.scores(leaf, each) for each in inputs.split(1)]).detach()
    lost = torch.cat([network.losses(leaf, *each) for each in zip(inputs.split(1), targets.split(1), strict=True)])
    gradients = torch.autograd.grad(lost.sum(), leaf, allow_unused=True)[0]
    together = network.scores(leaf, inputs).detach()
    lost_together = network.losses(leaf, inputs, targets).detach()
    if gradients is None:
        return NO_GRADIENT
    if any(not torch.equal(before[name], each) for name, each in network.frozen.items()):
        return "a pass changes a buffer: keep no running statistics, counts or caches of records"
    if not torch.equal(alone, again):
        return "two passes over the same rows differ: draw nothing in forward() (nn.Dropout is off, F.dropout is not)"
    for one, other, what in ((alone, together, "output"), (lost.detach(), lost_together, "loss")):
        if not bool((one - other).abs().max() <= MIXED * (1 + one.abs().max())):
            return (
                f"a record's {what} depends on the records beside it: use sums over a record's own axes only "
                "(nn.GroupNorm or nn.LayerNorm for a normalisation over the batch)"
            )
    return None


def _fails_at_bounds(network: Network) -> str | None:
    """Rows at the schema's public bounds: what raises there would raise on records, and finding those takes time."""
    flat = network.flat(public_point(network))
    for which, inputs, targets in bounds(network):
        try:
            network.losses(flat, inputs, targets)
        except Exception as error:
            return (
                f"it fails on a row whose columns are all at their {which} bound ({said(error)}): make tables as long "
                "as the highest index + 1, or cut an index with clamp()"
            )
    return None


def _fastest(network: Network, found: Findings, makers: tuple[type[Any], ...] = (BookByPixel, Book, Vmapped)) -> Route:
    """The first of book and vmap that equals the loop on public rows, at a public point."""
    flat = network.flat(public_point(network))
    inputs, targets = public_rows(network, TRIED)
    want = torch.empty(TRIED, network.dimension, device=network.device)
    loop = Loop(network)
    loop.gradients(flat, inputs, targets, want)
    told = loop.outcomes(flat, inputs, targets)
    wrong = mixing(network, (found.chunks.size, FORWARD_ROWS)) if Book in makers else None
    for make in makers:
        if wrong is not None and issubclass(make, Book):
            found.routes[make.name] = wrong
            continue
        got = torch.full_like(want, torch.nan)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what vmap has no rule for, and does one by one
                route: Route = make(network)
                route.gradients(flat, inputs, targets, got)
                outcomes = route.outcomes(flat, inputs, targets)
        except Exception as error:
            found.routes[make.name] = said(error)
            continue
        room = AGREEMENT * want.norm(dim=1) + 1e-9
        right = bool(((got - want).norm(dim=1) <= room).all())
        pairs = zip(outcomes, told, strict=True)
        if right and all(bool((a - b).abs().max() <= MIXED * (1 + b.abs().max())) for a, b in pairs):
            found.routes[make.name] = "equals the loop"
            return route
        found.routes[make.name] = "differs from the loop"
    return loop


def _speed(chunks: Chunks) -> float:
    """Records a second, at one point."""
    inputs, targets = public_rows(chunks.network, chunks.size)
    flat = chunks.network.flat(public_point(chunks.network))
    out = torch.empty(chunks.size, chunks.network.dimension, device=chunks.network.device)
    chunks.gradients(flat, inputs, targets, out)
    count, start = 0, time.perf_counter()
    while count == 0 or time.perf_counter() - start < MEASURED_SECONDS:
        chunks.gradients(flat, inputs, targets, out)
        count += 1
    return count * chunks.size / (time.perf_counter() - start)
