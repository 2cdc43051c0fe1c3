"""A user's module as a function of one flat vector of its trained parameters; everything else in it is constant."""

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from parley.learning.errors import ModelError
from parley.models.losses import BUILT_IN, Loss, Tensor
from parley.models.module_spec import ModuleSpec, digest_with, is_module
from parley.models.package_files import PackageFiles
from parley.models.verified_import import imported, said

Floats = NDArray[np.float64]


@contextmanager
def steady(threads: int) -> Iterator[None]:
    """One way of computing: so many threads, attention by its plain formula, tiny numbers taken as zero.

    A number below float32's normal range takes a processor a hundred times as long: records must not do that.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


@dataclass
class Network:
    """A built module, its loss, and what of it is trained."""

    spec: ModuleSpec
    """With the digest of the bytes that it was built of."""
    outputs: int
    net: Any
    loss: Loss
    device: str
    files: PackageFiles = field(repr=False)
    make: Any = field(repr=False)
    """The user's function, for a fresh start."""
    notes: list[str] = field(default_factory=list)

    @classmethod
    def build(cls, spec: ModuleSpec, outputs: int, device: str) -> "Network":
        """Checks the digest, imports the bytes that it is of, and calls the user's function."""
        files = PackageFiles.find(spec.module)
        digest = digest_with(spec, outputs, files)
        if spec.digest is not None and spec.digest != digest:
            raise ModelError(
                f"{spec.kind} as it is installed here is {digest}, and {spec.digest} was agreed on: install the same "
                "package, or compare the two file by file with `parley model show --files`"
            )
        make = imported(files, spec.kind)
        loss = imported(files, spec.loss) if is_module(spec.loss) else BUILT_IN[spec.loss]
        net = placed(built(spec, make, 0), device)
        quiet = silence(net)
        files.require_same()
        known = ModuleSpec(**{**vars(spec), "digest": digest})
        found = cls(known, outputs, net, loss, device, files, make)
        if quiet:
            found.notes.append(f"dropout is off in {', '.join(quiet)}: the servers' noise regularises")
        if not found.trained:
            raise ModelError(f"{spec.kind} has no parameter with requires_grad: there is nothing to train")
        return found

    def again(self) -> "Network":
        """The same, built once more."""
        net = built(self.spec, self.make, 0).to(self.device)
        silence(net)
        return Network(self.spec, self.outputs, net, self.loss, self.device, self.files, self.make)

    @cached_property
    def trained(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of each trained parameter, in order; tied ones once."""
        return tuple((name, tuple(p.shape)) for name, p in self.net.named_parameters() if p.requires_grad)

    @cached_property
    def sizes(self) -> list[int]:
        return [math.prod(shape) for _, shape in self.trained]

    @cached_property
    def dimension(self) -> int:
        return sum(self.sizes)

    @cached_property
    def frozen(self) -> dict[str, Tensor]:
        """Constants: parameters that are not trained, and buffers."""
        found = {name: p.detach() for name, p in self.net.named_parameters() if not p.requires_grad}
        return {**found, **dict(self.net.named_buffers())}

    def start(self, seed: int) -> Floats:
        """Where the user's function starts the trained parameters, under this public seed."""
        with_seed = dict(built(self.spec, self.make, seed).named_parameters())
        parts = [with_seed[name].detach().to("cpu", torch.float64).flatten() for name, _ in self.trained]
        start: Floats = torch.cat(parts).numpy()
        if start.shape != (self.dimension,) or not np.isfinite(start).all():
            raise ModelError(f"{self.spec.kind} starts with numbers that are not finite, or of another size each time")
        return start

    def flat(self, point: Floats) -> Tensor:
        """A public point as float32; beyond its range it is infinite, and every record contributes zero."""
        with np.errstate(all="ignore"):
            return torch.from_numpy(point.astype(np.float32)).to(self.device)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """The trained parameters as parts of one vector: its gradient is theirs, side by side."""
        parts = flat.split(self.sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.trained, parts, strict=True)}

    def scores(self, flat: Tensor, inputs: Tensor, constants: Mapping[str, Tensor] | None = None) -> Tensor:
        """[records, outputs]"""
        values = {**self.named(flat), **(self.frozen if constants is None else constants)}
        found = functional_call(self.net, values, (inputs,))
        if self.outputs == 1 and isinstance(found, torch.Tensor) and found.shape == (len(inputs),):
            return found[:, None]
        if not isinstance(found, torch.Tensor) or found.shape != (len(inputs), self.outputs):
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise ModelError(
                f"{self.spec.kind} makes {shape} of {len(inputs)} records: return a tensor of shape (records, "
                f"{self.outputs})"
            )
        return found

    def losses(
        self, flat: Tensor, inputs: Tensor, targets: Tensor, constants: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """[records]"""
        return self.lost(self.scores(flat, inputs, constants), targets)

    def lost(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Of scores, [records]"""
        found = self.loss(scores, targets)
        if not isinstance(found, torch.Tensor) or found.shape != (len(scores),):
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise ModelError(
                f"the loss {self.spec.loss} makes {shape} of {len(scores)} records: return one number per record "
                '(reduction="none")'
            )
        return found

    def targets(self, values: Floats) -> Tensor:
        """Classes as whole numbers, everything else as it is."""
        kind = torch.int64 if self.outputs > 1 else torch.float32
        return torch.from_numpy(np.asarray(values)).to(self.device, kind)


def built(spec: ModuleSpec, make: Any, seed: int) -> Any:
    """What the user's function makes under this seed, on the processor."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            net = make(**spec.options)
        except (Exception, SystemExit) as error:
            raise ModelError(f"{spec.kind} cannot be built with options {dict(spec.options)}: {said(error)}") from error
    if not isinstance(net, nn.Module):
        raise ModelError(f"{spec.kind} returns {type(net).__name__}: return a torch.nn.Module")
    tensors = itertools.chain(net.named_parameters(), net.named_buffers())
    if any(isinstance(each, nn.parameter.UninitializedTensorMixin) for _, each in tensors):
        raise ModelError(f"{spec.kind} has lazy layers, of no size yet: give their sizes (Linear for LazyLinear)")
    for name, p in net.named_parameters():
        if p.requires_grad and p.dtype != torch.float32:
            raise ModelError(f"{name} is trained and {p.dtype}: make it float32, or freeze it")
    return net


def placed(net: Any, device: str) -> Any:
    """On its device; a person may have named one that this machine or this torch has not."""
    try:
        return net.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(
            f"device is {device!r}, which torch {torch.__version__} cannot use here ({said(error)}): use cpu, or "
            "install the torch of this machine's GPU"
        ) from error


def silence(net: Any) -> list[str]:
    """Dropout off: the servers' noise regularises, and a party draws nothing for a module. Says which layers had it."""
    found = []
    for name, each in net.named_modules():
        if isinstance(each, nn.modules.dropout._DropoutNd) and each.p > 0:
            each.p = 0.0
            found.append(name)
        elif isinstance(each, nn.MultiheadAttention | nn.RNNBase) and each.dropout > 0:
            each.dropout = 0.0
            found.append(name)
    return found
