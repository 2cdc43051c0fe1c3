"""An institution's own PyTorch module as a `Model`: each record's gradient, clipped and summed in exact integers.

The module makes float32 gradients, one row per record, and that is all it does: the kernel in C
(`parley.mpc.clip_sums`) clips each row, rounds it to the lattice and checks its norm in exact integers, whatever the
module did. That a row is of one record only is what the routes and the checks are for (`parley.models.validator`).
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from parley.learning.encoding import Scale
from parley.learning.rows import Block
from parley.models.chunks import Chunks, usual_chunk
from parley.models.losses import Tensor
from parley.models.module_spec import ModuleSpec
from parley.models.network import Network, steady
from parley.models.validator import Findings, examine
from parley.mpc.clip_sums import LARGEST_STEPS, clip_sums
from parley.privacy.clipping import Terms

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass
class TorchModel:
    """A module that was imported and checked in this process."""

    network: Network = field(repr=False)
    chunks: Chunks = field(repr=False)
    threads: int
    findings: Findings = field(repr=False)

    @classmethod
    def open(
        cls,
        spec: ModuleSpec,
        outputs: int,
        *,
        device: str = "cpu",
        threads: int = 1,
        chunk: int | None = None,
        checked: bool = True,
    ) -> "TorchModel":
        """Verifies the digest, imports the very bytes that it is of, builds, and refuses what could mix records.

        Unchecked it only chooses a route: for who has just checked the same bytes on this device, in such chunks.
        """
        with steady(threads):
            network = Network.build(spec, outputs, device)
            size = usual_chunk(network.dimension) if chunk is None else chunk
            findings = examine(network, size, full=checked)
            findings.require()
        network.files.require_same()  # what is read when it is first used, too
        network.spec = findings.spec
        return cls(network, findings.chunks, threads, findings)

    @property
    def spec(self) -> ModuleSpec:
        """With the digest and the probe that were found here: `spec.body()` is what a manifest has."""
        return self.network.spec

    @property
    def outputs(self) -> int:
        return self.network.outputs

    @property
    def device(self) -> str:
        return self.network.device

    @property
    def chunk(self) -> int:
        """Records in a chunk."""
        return self.chunks.size

    @property
    def route(self) -> str:
        return self.chunks.route.name

    @property
    def records_per_second(self) -> float | None:
        """Gradients at one point, as measured when it was checked."""
        return self.findings.records_per_second

    @property
    def parameters(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Name and shape of what is trained, in the order of a model file's numbers."""
        return self.network.trained

    @property
    def dimension(self) -> int:
        return self.network.dimension

    @property
    def largest_limit(self) -> int:
        return LARGEST_STEPS

    def initial(self, words: NDArray[np.uint64]) -> Floats:
        """Where the user's own function starts it, under a public seed of 32 bits, all that torch's generator takes."""
        return self.network.start(int(words[0] ^ (words[0] >> np.uint64(32))) & 0xFFFFFFFF)

    def contribution(
        self, block: Block, targets: Floats, present: Flags, points: tuple[Floats, ...], terms: Terms, scale: Scale
    ) -> Integers:
        """Σ over the present records of their clipped terms, in lattice steps, exactly. Of others it is shown none."""
        inputs, wanted = self._inputs(block), self.network.targets(targets)
        total = np.zeros(self.dimension, np.int64)
        with steady(self.threads):
            flats = [self.network.flat(point) for point in points]
            outs = [self._room() for _ in points]
            for start in range(0, len(inputs), self.chunk):
                part = slice(start, start + self.chunk)
                sound, shown = self._pad(present[part]), self.chunks.among(inputs[part], wanted[part], present[part])
                for flat, out in zip(flats, outs, strict=True):
                    sound &= self.chunks.gradients(flat, *shown, out)
                _add(outs, sound, terms, scale, total)
        return total

    def unit_contribution(
        self,
        block: Block,
        targets: Floats,
        members: Integers,
        present: Flags,
        points: tuple[Floats, ...],
        terms: Terms,
        scale: Scale,
    ) -> Integers:
        """The same of units of several records, whose gradients are summed before the clip.

        `members` are rows of the block, int64[units, most], −1 where a unit has fewer.
        """
        inputs, wanted = self._inputs(block), self.network.targets(targets)
        total = np.zeros(self.dimension, np.int64)
        with steady(self.threads):
            flats = [self.network.flat(point) for point in points]
            outs, sums = [self._room() for _ in points], [self._room() for _ in points]
            for start in range(0, len(members), self.chunk):
                part, here = members[start : start + self.chunk], present[start : start + self.chunk]
                sound = self._pad(here)
                for flat, out, unit in zip(flats, outs, sums, strict=True):
                    unit.zero_()
                    for rows in part.T:
                        there = self._pad(rows >= 0)
                        taken = torch.from_numpy(np.maximum(rows, 0))
                        shown = self.chunks.among(inputs[taken], wanted[taken], (rows >= 0) & here)
                        kept = self.chunks.gradients(flat, *shown, out)
                        # Where there is no record the row is the public one's: taken out, not multiplied by zero.
                        unit += torch.where(torch.from_numpy(there)[:, None].to(self.device), out, 0.0)
                        sound &= kept | ~there
                _add(sums, sound, terms, scale, total)
        return total

    def gradients(self, block: Block, targets: Floats, point: Floats) -> Floats:
        """Per-record gradients, float64[records, dimension]; nan for a record that makes the module raise."""
        inputs, wanted = self._inputs(block), self.network.targets(targets)
        found = np.empty((len(inputs), self.dimension))
        with steady(self.threads):
            flat, out = self.network.flat(point), self._room()
            for start in range(0, len(inputs), self.chunk):
                part = slice(start, start + self.chunk)
                sound = self.chunks.gradients(flat, inputs[part], wanted[part], out)
                rows = out.cpu().numpy().astype(np.float64)
                rows[~sound] = np.nan
                found[part] = rows[: len(inputs[part])]
        return found

    def gradient_norms(self, block: Block, targets: Floats, point: Floats, there: Flags | None = None) -> Floats:
        """Of each record; `there` as in `losses`."""
        inputs, wanted = self._inputs(block), self.network.targets(targets)
        if there is not None:
            inputs, wanted = self.chunks.among(inputs, wanted, there)
        found = np.empty(len(inputs))
        with steady(self.threads):
            flat, out = self.network.flat(point), self._room()
            for start in range(0, len(inputs), self.chunk):
                part = slice(start, start + self.chunk)
                sound = self.chunks.gradients(flat, inputs[part], wanted[part], out)
                norms = torch.linalg.vector_norm(out, dim=1, dtype=torch.float64).cpu().numpy()
                found[part] = np.where(sound, norms, np.nan)[: len(inputs[part])]
        return found

    def losses(self, block: Block, targets: Floats, point: Floats, there: Flags | None = None) -> Floats:
        """Of each record. Where `there` is False a row of the block only fills a place, and a public one is taken."""
        return self.outcomes(block, targets, point, there)[0]

    def scores(self, block: Block, point: Floats) -> Floats:
        return self.outcomes(block, np.zeros(len(block)), point)[1]

    def outcomes(
        self, block: Block, targets: Floats, point: Floats, there: Flags | None = None
    ) -> tuple[Floats, Floats]:
        """Losses and scores, of one pass."""
        with steady(self.threads):
            flat, inputs, wanted = self.network.flat(point), self._inputs(block), self.network.targets(targets)
            if there is not None:
                inputs, wanted = self.chunks.among(inputs, wanted, there)
            scores, losses = self.chunks.outcomes(flat, inputs, wanted)
        return losses.astype(np.float64), scores.astype(np.float64)

    def state_dict(self, theta: Floats) -> dict[str, Tensor]:
        """All that the module's own `load_state_dict` takes: these trained values, and the constants beside them."""
        with torch.no_grad():
            values = {**self.network.named(self.network.flat(theta)), **self.network.frozen}
            aliases = {id(p): name for name, p in self.network.net.named_parameters()}
            own = self.network.net.state_dict(keep_vars=True)
            return {
                name: values[aliases.get(id(each), name)].detach().cpu().clone() if torch.is_tensor(each) else each
                for name, each in own.items()
            }

    def _inputs(self, block: Block) -> Tensor:
        rows = block.singles() * np.float32(2.0**-block.bits)
        return torch.from_numpy(rows).view(-1, *self.spec.input).to(self.device)

    def _room(self) -> Tensor:
        return torch.empty(self.chunk, self.dimension, device=self.device)

    def _pad(self, flags: Flags) -> Flags:
        return np.concatenate([flags, np.zeros(self.chunk - len(flags), bool)])


def _add(rows: list[Tensor], present: Flags, terms: Terms, scale: Scale, total: Integers) -> None:
    """The kernel's: each present row's term, clipped and in exact integers."""
    fresh, *before = (each.cpu().numpy() for each in rows)
    clip_sums(
        fresh,
        before[0] if before else None,
        present,
        gradient_weight=terms.gradient_weight,
        gradient_norm=terms.gradient_norm,
        difference_weight=terms.difference_weight if before else 0.0,
        difference_norm=terms.difference_norm if before else 0.0,
        step=scale.step,
        limit=scale.limit,
        total=total,
    )
