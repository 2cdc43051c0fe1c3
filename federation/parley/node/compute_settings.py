"""Where a party's sums are computed: the optional table [compute] of its node.toml. Without it, in its own process.

    [compute]
    backend = "ray"
    workers = 4                        # each keeps a shard of the records, in memory
    device = "cpu"                     # the default; "cuda" for modules, where each worker has a GPU

Without an address a cluster is started on this machine for each run. An institution's own cluster, which this machine
is a node of, is reached over TLS and with a token, or refused:

    address = "head.example.org:6379"
    token = "ray.token"                # files, from the folder of node.toml
    certificate = "ray.crt"
    key = "ray.key"
    authority = "ray-ca.crt"
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.federation.fields import Fields
from parley.node.data_sets import path_text

BACKENDS = ("ray",)
DEVICES = ("cpu", "cuda")
MOST_WORKERS = 256
FILES = ("token", "certificate", "key", "authority")


@dataclass(frozen=True, kw_only=True)
class ComputeSettings:
    """As it is written; `parley.compute.cluster` says what it means."""

    workers: int
    address: str | None = None
    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    device: str = "cpu"

    def as_json(self, home: Path) -> dict[str, Any]:
        """The table; files inside the node's folder are named from there."""
        found: dict[str, Any] = {"backend": "ray", "workers": self.workers}
        if self.device != "cpu":
            found["device"] = self.device
        if self.address is not None:
            found["address"] = self.address
        return found | {name: path_text(path, home) for name in FILES if (path := getattr(self, name)) is not None}


def compute_settings(fields: Fields, home: Path) -> ComputeSettings:
    """`home` is the node's folder."""
    fields.choice("backend", BACKENDS)
    address = fields.text("address") if fields.has("address") else None
    files = {name: home / fields.text(name) for name in FILES if fields.has(name)}
    if address is None and files:
        raise fields.refuse(next(iter(files)), "is of a cluster with an address: give that too, or leave both out")
    if address is not None and len(files) < len(FILES):
        missing = next(name for name in FILES if name not in files)
        raise fields.refuse(missing, "is missing: records go to a cluster over TLS and with a token, or not at all")
    if address is not None and not _has_port(address):
        raise fields.refuse("address", f'is {address!r}: give "host:port" of the cluster\'s head, without a scheme')
    settings = ComputeSettings(
        workers=fields.whole("workers", 1, MOST_WORKERS),
        address=address,
        device=fields.choice("device", DEVICES) if fields.has("device") else "cpu",
        **files,
    )
    fields.finish()
    return settings


def _has_port(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return bool(host) and "/" not in host and port.isascii() and port.isdigit() and 0 < int(port) <= 65535
