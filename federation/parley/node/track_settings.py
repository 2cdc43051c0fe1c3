"""Where a coordinator's runs are tracked: the optional table [track] of its node.toml.

    [track]
    mlflow = "mlruns"                       # a folder, from that of node.toml; or "https://mlflow.example.org"
    tensorboard = "events"                  # a folder

A folder stays on this machine. Something leaves it only to an address that the operator has written here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parley.federation.fields import Fields


@dataclass(frozen=True)
class TrackSettings:
    """None for no such tracker."""

    mlflow: Path | str | None = None
    """A folder, or the address of a server."""
    tensorboard: Path | None = None

    def as_json(self, home: Path) -> dict[str, Any]:
        """The table; folders inside the node's are named from there."""
        return {name: _written(value, home) for name, value in vars(self).items() if value is not None}


NOWHERE = TrackSettings()


def track_settings(fields: Fields, home: Path) -> TrackSettings:
    """`home` is the node's folder."""
    mlflow = _place(fields, home) if fields.has("mlflow") else None
    tensorboard = _folder(fields, "tensorboard", home) if fields.has("tensorboard") else None
    fields.finish()
    return TrackSettings(mlflow, tensorboard)


def _place(fields: Fields, home: Path) -> Path | str:
    text = fields.text("mlflow")
    if not text.startswith(("http://", "https://")):
        return _folder(fields, "mlflow", home)
    try:
        parts = urlsplit(text)
        right = bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise fields.refuse("mlflow", f"is {text!r}: give the address of a server, such as https://mlflow.example.org")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise fields.refuse(
            "mlflow",
            "has more than a server's address: leave name and password out, and give them to the coordinator's process "
            "as MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )
    return text


def _folder(fields: Fields, name: str, home: Path) -> Path:
    text = fields.text(name)
    if "://" in text:
        raise fields.refuse(
            name, f"is {text!r}: give a folder" + (" or an http(s) address" if name == "mlflow" else "")
        )
    return home / text


def _written(value: Path | str, home: Path) -> str:
    if isinstance(value, Path) and value.is_relative_to(home):
        return value.relative_to(home).as_posix()
    return str(value)
