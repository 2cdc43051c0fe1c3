"""Who a node is: `parley://FEDERATION/ROLE/NAME`, the URI in its certificate."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from parley.federation.errors import IdentityError

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""A DNS label, for names become host names below."""
URI = re.compile(r"parley://([^/]*)/([^/]*)/([^/]*)")
LABEL_RULE = "1 to 63 of a-z, 0-9 and -, not - first or last"


class Role(StrEnum):
    """What a node does; the roles of the architecture."""

    party = "party"
    aggregator = "aggregator"
    coordinator = "coordinator"

    @property
    def with_article(self) -> str:
        return f"an {self}" if self is Role.aggregator else f"a {self}"

    @property
    def serves(self) -> bool:
        """Whether others dial it. A party's connections are outbound only, and its certificate cannot serve."""
        return self is not Role.party


def is_label(text: str) -> bool:
    """Whether `text` can be part of a node's name."""
    return LABEL.fullmatch(text) is not None


@dataclass(frozen=True, order=True)
class NodeName:
    """A node's identity."""

    federation: str
    role: Role
    name: str

    def __post_init__(self) -> None:
        for what, label in (("federation", self.federation), ("name", self.name)):
            if not is_label(label):
                raise IdentityError(f"{what} is {label!r}: use {LABEL_RULE}")

    @property
    def uri(self) -> str:
        return f"parley://{self.federation}/{self.role}/{self.name}"

    @property
    def host_name(self) -> str:
        """What TLS compares in place of a host name.

        It follows from the identity alone, so a client that expects it cannot be answered by any other node of the
        federation, wherever that node runs and whatever DNS says.
        """
        return f"{self.name}.{self.role}.{self.federation}.parley.internal"

    @classmethod
    def parse(cls, uri: str) -> Self:
        """The inverse of `uri`, and nothing else."""
        parts = URI.fullmatch(uri)
        if parts is None:
            raise IdentityError(f"{uri!r} is not a node's name: write parley://FEDERATION/ROLE/NAME")
        federation, role, name = parts.groups()
        if role not in set(Role):
            raise IdentityError(f"{uri!r} has the role {role!r}: use {', '.join(Role)}")
        return cls(federation, Role(role), name)

    def __str__(self) -> str:
        return self.uri
