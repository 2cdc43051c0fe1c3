"""Which files hold the records: [data] of a study.toml.

schema = "schema.toml"                             what the files look like, and what their columns mean
train = ["all.csv"]                                one data set, shared out over
parties = 4                                        so many parties, or over those that [[parties]] names
parties = { a = ["a.csv"], b = ["b.csv"] }         or each party's own
test = ["public.csv"]                              public: it scores the model
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from parley.federation.fields import Fields
from parley.study.errors import DocumentError

MOST_SHARES = 1000


@dataclass(frozen=True, kw_only=True)
class Files:
    """Either `train`, one pooled data set that is shared out over `shares` parties, or files of each party by name."""

    parties: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    train: tuple[Path, ...] = ()
    shares: int | None = None
    test: tuple[Path, ...] = ()
    schema: Path | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any], folder: Path = Path()) -> Self:
        """From a table [data]; relative paths are from `folder`."""
        data = Fields(body, "data", DocumentError)

        def paths(fields: Fields, name: str) -> tuple[Path, ...]:
            return tuple(folder / each for each in fields.text_list(name))

        found: dict[str, Any] = {name: paths(data, name) for name in ("train", "test") if data.has(name)}
        if data.has("schema"):
            found["schema"] = folder / data.text("schema")
        if data.has("parties"):
            if isinstance(body["parties"], int):
                found["shares"] = data.whole("parties", 1, MOST_SHARES)
            else:
                each = data.table("parties")
                found["parties"] = tuple((name, paths(each, name)) for name in body["parties"])
        data.finish()
        if "parties" in found and "train" in found:
            raise data.refuse("train", "and the files of each party are both there: give one of them")
        if "shares" in found and "train" not in found:
            raise data.refuse("parties", "is a number and there is no train to share out: name each party's files")
        return cls(**found)

    def as_json(self, folder: Path) -> dict[str, Any]:
        """The table that `of` reads, with paths from `folder`."""

        def names(paths: tuple[Path, ...]) -> list[str]:
            return [os.path.relpath(path, folder) for path in paths]

        body: dict[str, Any] = {}
        if self.schema is not None:
            body["schema"] = os.path.relpath(self.schema, folder)
        if self.train:
            body["train"] = names(self.train)
        if self.shares is not None:
            body["parties"] = self.shares
        if self.parties:
            body["parties"] = {name: names(paths) for name, paths in self.parties}
        if self.test:
            body["test"] = names(self.test)
        return body
