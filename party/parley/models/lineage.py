"""Which tensors of a pass are of records, and whether each row of them is of one record only: by the operations' own
definitions, so that it holds for any numbers, and not for those alone that somebody has tried.

Two things follow. A module that uses in one pass what it kept of another is refused. And the book route, which shows a
module many records side by side, is open only to passes whose every operation is on the list here: record i of what
comes out is made of record i of what goes in, and of constants. A module's path does not depend on values
(`parley.models.values`), so that a pass over public rows has the operations of every other of its shape.
"""

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from parley.models.losses import Tensor
from parley.models.network import Network
from parley.models.public_rows import public_point, public_rows
from parley.models.verified_import import said

KEPT = "keep nothing from one call to the next"
NUMBER_BY_NUMBER = frozenset({
    "abs", "add", "addcdiv", "addcmul", "alias", "atan", "binary_cross_entropy_with_logits", "celu", "clamp",
    "clamp_max", "clamp_min", "clone", "cos", "detach", "div", "elu", "eq", "erf", "exp", "expm1", "ge", "gelu", "gt",
    "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "le", "leaky_relu", "lift_fresh", "log", "log1p",
    "log_sigmoid_forward", "logical_and", "logical_not", "logical_or", "lt", "masked_fill", "maximum", "minimum",
    "mish", "mse_loss", "mul", "ne", "neg", "pow", "reciprocal", "relu", "rsqrt", "rsub", "sigmoid", "sign", "silu",
    "sin", "smooth_l1_loss", "softplus", "sqrt", "square", "sub", "tanh", "threshold", "where", "_to_copy",
})  # fmt: skip
"""Of numbers at the same place, or of one number for all of them."""
REDUCED_LOSSES = frozenset({"binary_cross_entropy_with_logits", "huber_loss", "mse_loss", "smooth_l1_loss"})
OVER_AXES = frozenset({"mean", "sum", "amax", "amin", "var", "std", "logsumexp", "linalg_vector_norm", "argmax"})
POOLS = frozenset({"max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "mkldnn_max_pool2d"})


class Lineage(TorchDispatchMode):  # type: ignore[misc]
    """Follows the tensors of passes of so many records."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.records, self.passes = records, 0
        self.mixes: str | None = None
        """The first operation that is not known to leave records apart."""
        self.keeps = False
        """Whether a pass used what an earlier one had made of records."""
        self._apart: dict[int, Tensor] = {}
        """Tensors whose first axis is the records', each with as many rows as any; kept, so that ids stay theirs."""
        self._made: dict[int, tuple[int, Any]] = {}
        """The newest pass that wrote records into a storage."""
        self._seen: list[weakref.ref[Tensor]] = []
        """All tensors of records, for as long as somebody else holds them."""

    def begin(self, *rows: Tensor) -> None:
        """A pass over these."""
        self.passes += 1
        for each in rows:
            self._mark(each, True)

    def of_records(self, tensor: Tensor) -> bool:
        """Whether its rows are known to be of one record each."""
        return id(tensor) in self._apart

    @property
    def tensors(self) -> list[Tensor]:
        return list(self._apart.values())

    def leaves_behind(self) -> bool:
        """Whether something of records is still there when the passes are over, and forgotten here."""
        self._apart.clear()
        self._made.clear()
        gc.collect()
        return any(each() is not None for each in self._seen)

    def _mark(self, tensor: Tensor, apart: bool) -> None:
        self._seen.append(weakref.ref(tensor))
        storage = tensor.untyped_storage()
        self._made[storage._cdata] = (self.passes, storage)
        if apart:
            self._apart[id(tensor)] = tensor

    def _pass_of(self, tensor: Tensor) -> int | None:
        return self._made.get(tensor.untyped_storage()._cdata, (None, None))[0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = list(_tensors((args, kwargs)))
        passes = [self._pass_of(each) for each in given]
        known = [self.of_records(each) for each in given]
        found = func(*args, **kwargs)
        if not any(passes) or isinstance(found, torch.device):
            return found
        self.keeps |= any(each is not None and each < self.passes for each in passes)
        name = func.overloadpacket.__name__
        written = list(_tensors(found))
        # Rows of records that are in a tensor which is not marked lie there in an order that nobody knows.
        whole = all(apart or made is None for apart, made in zip(known, passes, strict=True))
        # What is written into must be the records' already: a constant would carry them to where it is used next.
        into = not func._schema.is_mutable or (bool(given) and known[0])
        apart = whole and into and bool(written) and self._leaves_apart(name, func, args, kwargs, written[0])
        if not apart and self.mixes is None:
            self.mixes = str(func)
        for each in written:
            self._mark(each, apart and self._by_records(each))
        return found

    def _leaves_apart(self, name: str, func: Any, args: Any, kwargs: Any, found: Tensor) -> bool:
        """Whether each row of what comes out is of that record, where the records are marked tensors' first axes."""
        if not self._by_records(found):
            return False
        plain = name.removesuffix("_")
        told = {each.name: value for each, value in zip(func._schema.arguments, args, strict=False)} | kwargs
        if plain in NUMBER_BY_NUMBER or plain == "copy":
            whole = plain not in REDUCED_LOSSES or told.get("reduction", 1) == 0
            return whole and all(self._aligned(each, found) for each in _tensors((args, kwargs)))
        rule = RULES.get(name)
        if rule is None and name in OVER_AXES:
            rule = _over_axes
        if rule is None and name in POOLS:
            return self.of_records(args[0]) and args[0].dim() == 4
        others = [each for each in list(_tensors((args, kwargs)))[1:] if self.of_records(each)]
        if name == "cat":
            parts = args[0]
            others = []
            return all(self._aligned(each, found) for each in parts) and _axis(told.get("dim", 0), found) != 0
        if name == "gather":
            known = self.of_records(args[0]) and self.of_records(told["index"])
            # Rows of another number would be of other records than the index's.
            return known and len(args[0]) == len(told["index"]) and _one_axis(told, args[0], found)
        if name == "nll_loss_forward":
            return self.of_records(args[0]) and self.of_records(args[1]) and told["reduction"] == 0
        if name == "addmm":
            return self.of_records(args[1]) and not self.of_records(args[0]) and not self.of_records(args[2])
        if rule is None or others or not self.of_records(args[0]):
            return False
        return rule(told, args[0], found)

    def _by_records(self, tensor: Tensor) -> bool:
        """As many rows for each, one record's after the other's, as views of a record's own rows have them."""
        return tensor.dim() > 0 and len(tensor) > 0 and len(tensor) % self.records == 0

    def _aligned(self, given: Tensor, found: Tensor) -> bool:
        """A constant, or rows of records against rows of records."""
        return not self.of_records(given) or given.dim() == found.dim()


def _tensors(nested: Any) -> Iterator[Tensor]:
    if isinstance(nested, torch.Tensor):
        yield nested
    elif isinstance(nested, list | tuple):
        for each in nested:
            yield from _tensors(each)
    elif isinstance(nested, dict):
        yield from _tensors(list(nested.values()))


def _axis(axis: int, tensor: Tensor) -> int:
    return axis % max(1, int(tensor.dim()))


def _over_axes(told: Any, given: Tensor, found: Tensor) -> bool:
    axes = told.get("dim")
    axes = [axes] if isinstance(axes, int) else axes
    return bool(axes) and all(_axis(each, given) != 0 for each in axes)


def _one_axis(told: Any, given: Tensor, found: Tensor) -> bool:
    return _axis(told.get("dim", 0), given) != 0


def _always(told: Any, given: Tensor, found: Tensor) -> bool:
    return True


RULES: dict[str, Callable[[Any, Tensor, Tensor], bool]] = {
    # Rows in their order before and after: a record's numbers are the same ones.
    "view": _always,
    "_unsafe_view": _always,
    "_reshape_alias": lambda told, given, found: given.is_contiguous() and found.is_contiguous(),
    "mm": _always,
    "convolution": lambda told, given, found: given.dim() == 4,
    "mkldnn_convolution": lambda told, given, found: given.dim() == 4,
    "native_layer_norm": lambda told, given, found: len(told["normalized_shape"]) < given.dim(),
    "native_group_norm": lambda told, given, found: told["N"] == len(given),
    "native_batch_norm": lambda told, given, found: told["training"] is False,
    "_native_batch_norm_legit_no_training": _always,
    "constant_pad_nd": lambda told, given, found: len(told["pad"]) // 2 < given.dim(),
    "permute": lambda told, given, found: _axis(told["dims"][0], given) == 0,
    "transpose": lambda told, given, found: 0 not in (_axis(told["dim0"], given), _axis(told["dim1"], given)),
    "expand": lambda told, given, found: given.dim() == found.dim(),
    "unsqueeze": lambda told, given, found: told["dim"] % found.dim() != 0,
    "squeeze": lambda told, given, found: len(given) > 1,
    "slice": _one_axis,
    "select": _one_axis,
    "_softmax": _one_axis,
    "_log_softmax": _one_axis,
}
"""What an operation must be told, given that its first tensor alone is of records."""


def kept(network: Network) -> str | None:
    """What is wrong with a module that uses in one pass what it made of records in another, or could in a later one."""
    lineage = Lineage(2)
    for _ in range(2):
        _passed(network, lineage, 2)
    if lineage.keeps:
        return f"a pass uses what an earlier one has kept of records: {KEPT}"
    return f"a pass leaves numbers of records behind: {KEPT}" if lineage.leaves_behind() else None


def mixing(network: Network, sizes: tuple[int, ...]) -> str | None:
    """Why a module cannot be shown this many records side by side; none where each row is of one record only."""
    other = network.again()  # what it keeps of a pass without values is of no use to another
    for size in sizes:
        if size == 1:
            continue
        lineage = Lineage(size)
        # Tensors without values take no memory, however many records they are of.
        with warnings.catch_warnings(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            warnings.simplefilter("ignore")
            constants = {name: mode.from_tensor(each) for name, each in other.frozen.items()}
            try:
                losses = _passed(other, lineage, size, mode.from_tensor, constants)
            except Exception as error:  # of the user's code, with so many records
                return said(error)
        if lineage.mixes is not None:
            return f"{lineage.mixes} is not on the list of what keeps records apart"
        if not lineage.of_records(losses):
            return "its loss is of no record's own numbers"
        if any(each._backward_hooks for each in lineage.tensors) or _own_functions(losses):
            return "it has a backward pass of its own"
    return None


def _passed(
    network: Network,
    lineage: Lineage,
    size: int,
    seen: Callable[[Tensor], Tensor] = lambda tensor: tensor,
    constants: dict[str, Tensor] | None = None,
) -> Tensor:
    """As training has it: what a module keeps may be part of torch's graph. `seen` is what the module is shown."""
    with unset_fake_temporarily():
        rows, point = public_rows(network, size), network.flat(public_point(network))
    inputs, targets, leaf = seen(rows[0]), seen(rows[1]), seen(point).requires_grad_(True)
    lineage.begin(inputs, targets)
    with lineage:
        return network.losses(leaf, inputs, targets, constants)


def _own_functions(losses: Tensor) -> bool:
    """Whether there is a torch.autograd.Function of somebody's own in its graph: what that does backwards is unseen."""
    seen, left = set(), [losses.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, BackwardCFunction):
            return True
        seen.add(node)
        left += [each for each, _ in node.next_functions]
    return False
