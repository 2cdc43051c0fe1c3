"""Which cluster: one on this machine for one run, or an operator's own; and what a process needs to reach it.

A local one listens on loopback only, asks for a token that is drawn for it, and has no dashboard and no usage
statistics. To an operator's own one leads TLS and a token, or nothing: whoever reaches a cluster reads the records.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.compute.errors import ComputeError
from parley.models.child import environment as module_environment

MOST_WORKERS = 256
DEVICES = ("cpu", "cuda")
LEAST_TOKEN_BYTES = 32
LOOPBACK = "127.0.0.1"
ARITHMETIC = ("OPENBLAS_", "MKL_", "NPY_", "ATEN_")
"""What chooses a processor's instructions, and so the last bits: the same in workers as in one process."""


@dataclass(frozen=True)
class Cluster:
    """As an operator writes it in [compute]; `checked` before it is used."""

    workers: int = 2
    """Processes that each keep a shard of the records."""
    address: str | None = None
    """Of an operator's own cluster, which this machine is a node of; none starts one here."""
    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    device: str = "cpu"
    """Of PyTorch, for modules: `cuda` where each worker has a GPU."""

    @property
    def files(self) -> Mapping[str, Path | None]:
        """What an operator's own cluster is reached with."""
        return {
            "token": self.token, "certificate": self.certificate, "key": self.key, "authority": self.authority,
        }  # fmt: skip

    def check(self) -> None:
        """A ComputeError names what is missing, or readable for others."""
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ComputeError(f"[compute] workers is {self.workers}: give 1 to {MOST_WORKERS}")
        if self.device not in DEVICES:
            raise ComputeError(f"[compute] device is {self.device!r}: use {' or '.join(DEVICES)}")
        given = [name for name, path in self.files.items() if path is not None]
        if self.address is None:
            if given:
                raise ComputeError(f"[compute] {given[0]} is of a cluster with an address: give it, or leave both out")
            return
        for name, path in self.files.items():
            if path is None:
                raise ComputeError(
                    f"[compute] {name} is missing: records go to a cluster over TLS and with a token, or not at all"
                )
            if not path.is_file():
                raise ComputeError(f"[compute] {name}: {path} is no file")
        for path in (self.token, self.key):
            assert path is not None
            if path.stat().st_mode & 0o077:
                raise ComputeError(f"{path} can be read by others: chmod 600 {path}")
        assert self.token is not None
        if len(self.token.read_text("utf-8").strip()) < LEAST_TOKEN_BYTES:
            raise ComputeError(f"{self.token} is shorter than {LEAST_TOKEN_BYTES} characters: make a new token")

    def environment(self, folder: Path) -> dict[str, str]:
        """For the process that speaks with it, whose own folder this is. Workers inherit it, in which a user's module
        runs: of this process's they see no more than a module in a process of its own does, and nothing steers Ray."""
        found = {
            **{name: value for name, value in os.environ.items() if name.startswith(ARITHMETIC)},
            **module_environment(1),
            "RAY_AUTH_MODE": "token",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_DISABLE_IMPORT_WARNING": "1",
        }
        if self.address is None or self.address.rpartition(":")[0] in (LOOPBACK, "localhost"):
            # Else Ray takes the address by which other machines reach this one, and listens on all there are.
            found["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        if self.address is None:
            found |= {
                "RAY_AUTH_TOKEN_PATH": str(_fresh_token(folder)),
                "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
            }
            return found
        return found | {
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(self.certificate),
            "RAY_TLS_SERVER_KEY": str(self.key),
            "RAY_TLS_CA_CERT": str(self.authority),
        }

    def as_json(self) -> dict[str, Any]:
        """For the process that speaks with it; files are in its environment."""
        return {"workers": self.workers, "address": self.address, "device": self.device}


def _fresh_token(folder: Path) -> Path:
    path = folder / "token"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(LEAST_TOKEN_BYTES))
    return path
