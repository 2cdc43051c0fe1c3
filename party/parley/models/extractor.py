"""A frozen extractor, opened and checked: features of one record at a time, whatever it does.

It sees one record only (vmap or a loop), so that no other has a part in its features: nor in where a record stands,
which a unit with a row more would change for all after it. Where it raises, that record's features are nan, which
become a row of zeros; where it looks at values to decide what to do, it is refused: how long it took would tell of
them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import vmap

from parley.learning.errors import ModelError
from parley.learning.transforms import Extractor
from parley.models.extractor_spec import extractor_digest
from parley.models.lineage import KEPT, Lineage
from parley.models.network import steady
from parley.models.package_files import PackageFiles
from parley.models.values import Watching
from parley.models.verified_import import imported, said

Singles = NDArray[np.float32]

CHUNK = 32
"""Records at once, in a shape that is always the same."""
AGREEMENT = 1e-4
"""Of both routes, relative to the length of a record's features."""
HOSTILE = (float("nan"), float("inf"), 1e30, 1e-42, -1e30)
"""What one public record is filled with while the others are watched."""
SAME = 3
"""Public records that are put at every place of a chunk."""
SEED = 14


@dataclass
class Opened:
    """A function that was imported from verified bytes, and checked on public inputs."""

    transform: Extractor
    extract: Callable[[Tensor], Tensor] = field(repr=False)
    route: str
    """vmap, or loop where that does not know what the module does"""
    threads: int = 1
    chunk = CHUNK

    @classmethod
    def of(cls, transform: Extractor, threads: int = 1) -> "Opened":
        """A ModelError says what to change."""
        module = transform.kind.split(":")[1]
        files = PackageFiles.find(module)
        found = extractor_digest(transform, files)
        if transform.digest and found != transform.digest:
            raise ModelError(
                f"{transform.kind} as it is installed here is {found}, and {transform.digest} was agreed on: install "
                "the package that was agreed on, or write this digest"
            )
        opened = cls(transform, imported(files, transform.kind), "vmap", threads)
        with steady(threads):
            opened._check()
        files.require_same()  # weights are read when it is first called
        return opened

    def __call__(self, values: Singles) -> Singles:
        """float32[records, columns], nan for a record that it fails on."""
        found = np.empty((len(values), self.transform.columns), np.float32)
        with steady(self.threads):
            for start in range(0, len(values), CHUNK):
                part = torch.from_numpy(np.ascontiguousarray(values[start : start + CHUNK]))
                found[start : start + CHUNK] = self._chunk(_padded(part)).numpy()[: len(part)]
        return found

    def seconds_per_chunk(self) -> float:
        """Of a processor, on public inputs."""
        rows = _public_rows(self.transform, CHUNK)
        with steady(self.threads):
            began, count = time.process_time(), 0
            while count < 3 or time.process_time() - began < 0.2:
                self._chunk(rows)
                count += 1
        return (time.process_time() - began) / count

    def _chunk(self, rows: Tensor) -> Tensor:
        try:
            return self._compute(rows)
        except Exception:
            failing = self._failing(rows, list(range(len(rows))))
        found = self._compute(self._only(rows, [row for row in range(len(rows)) if row not in failing]))
        found[failing] = torch.nan
        return found

    def _failing(self, rows: Tensor, among: list[int]) -> list[int]:
        """Those that it fails on, given that it fails on one of them: by halves, which a slot has time for."""
        if len(among) == 1:
            return among
        found = []
        for half in (among[: len(among) // 2], among[len(among) // 2 :]):
            try:
                self._compute(self._only(rows, half))
            except Exception:
                found += self._failing(rows, half)
        return found or among

    def _only(self, rows: Tensor, kept: list[int]) -> Tensor:
        """In their places among public rows: the same bits as among any others."""
        found = _public_rows(self.transform, len(rows))
        found[kept] = rows[kept]
        return found

    def _compute(self, rows: Tensor) -> Tensor:
        with torch.no_grad():
            if self.route == "vmap":
                found: Tensor = vmap(lambda row: self._one(row[None]), randomness="error")(rows)
                return found
            # Copies, for how numbers lie in memory may change their last bit, too.
            return torch.stack([self._one(row.clone()) for row in rows.split(1)])

    def _one(self, row: Tensor) -> Tensor:
        """[columns] of a batch of one."""
        found = self.extract(row)
        if not isinstance(found, torch.Tensor) or found.shape != (1, self.transform.columns):
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise ModelError(
                f"{self.transform.kind} makes {shape} of one record: return a tensor of shape (records, "
                f"{self.transform.columns:,})"
            )
        return found[0].float()

    # ------------------------------------------------------------ on public inputs, before there is any record

    def _check(self) -> None:
        rows = _public_rows(self.transform, CHUNK)
        loop = self._tried("loop", rows[:4])
        self._require_plain(rows[:1])  # after a real call, whose weights are real ones
        self._require_nothing_kept()
        try:
            same = _agree(self._tried("vmap", rows)[:4], loop) and self._same_everywhere(rows)
            self.route = "vmap" if same else "loop"
        except ModelError:
            self.route = "loop"
        found = self._tried(self.route, rows)
        if not torch.isfinite(found).all():
            raise ModelError(f"{self.transform.kind} makes of public inputs what is not finite: check its weights")
        self._require_isolation(rows, found)

    def _same_everywhere(self, rows: Tensor) -> bool:
        """Whether some records have the same features, to the bit, at every place of a chunk."""
        for row in rows[:SAME].split(1):
            found = self._compute(row.expand_as(rows).contiguous())
            if not torch.equal(found, found[:1].expand_as(found)):
                return False
        return True

    def _require_nothing_kept(self) -> None:
        """What it made of one record is gone before it sees another."""
        lineage = Lineage(1)
        for _ in range(2):
            row = _public_rows(self.transform, 1)
            lineage.begin(row)
            with lineage, torch.no_grad():
                self.extract(row)
            del row
        if lineage.keeps or lineage.leaves_behind():
            raise ModelError(f"{self.transform.kind} keeps something of a record: {KEPT}")

    def _tried(self, route: str, rows: Tensor) -> Tensor:
        self.route = route
        try:
            return self._compute(rows)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{self.transform.kind} fails on public inputs: {said(error)}") from None

    def _require_plain(self, row: Tensor) -> None:
        """No step depends on values: torch's fake tensors have none to look at."""
        mode, asked = Watching(), None
        try:
            with mode, torch.no_grad():
                self.extract(torch.empty_like(row))
        except Exception as error:
            asked = said(error)
        if mode.asked or asked:  # its own code may have caught the error
            raise ModelError(
                f"{self.transform.kind} looks at its input's values to decide what to do, or cannot be traced "
                f"({asked or mode.asked[0]}): use torch.where in place of if, .item() and indices from data"
            )

    def _require_isolation(self, rows: Tensor, found: Tensor) -> None:
        """One record replaced leaves the others' features the same to the bit, twice over and in any order."""
        if not torch.equal(self._compute(rows), found):
            raise ModelError(
                f"{self.transform.kind} gives other features the second time: put its modules in eval mode, and take "
                "out what is random"
            )
        if not self._same_everywhere(rows):
            raise ModelError(
                f"{self.transform.kind} makes other features of one record at other places: compute them from it alone"
            )
        for place, value in enumerate(HOSTILE):
            changed = rows.clone()
            changed[place] = value
            others = torch.arange(len(rows)) != place
            if not torch.equal(self._chunk(changed)[others], found[others]):
                raise ModelError(f"{self.transform.kind} mixes records: use GroupNorm or LayerNorm for BatchNorm")


def _public_rows(transform: Extractor, count: int) -> Tensor:
    """Between 0 and 1, the same everywhere."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.rand((count, *transform.shape), generator=generator)


def _padded(rows: Tensor) -> Tensor:
    missing = CHUNK - len(rows)
    return rows if not missing else torch.cat([rows, torch.zeros(missing, *rows.shape[1:])])


def _agree(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).norm(dim=1) <= AGREEMENT * other.norm(dim=1) + 1e-6).all())
