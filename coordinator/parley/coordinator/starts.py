"""The model files that runs start from: given with `parley run --start`, kept in the coordinator's folder, checked.

NODE/state/starts/DIGEST.npz, so that a coordinator that is started again finds what the manifest names.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.coordinator.errors import RunFailedError
from parley.federation.manifest import Manifest
from parley.learning.errors import PartyError
from parley.learning.model_archive import read_archive, write_archive
from parley.models.registry import model_of
from parley.models.warm import WarmStart, read_start
from parley.privacy.durable import force


def start_path(state: Path, digest: str) -> Path:
    """Where a coordinator keeps the model files that its runs start from; `state` is its folder's."""
    return state / "starts" / f"{digest}.npz"


def warm_start(manifest: Manifest, state: Path | None) -> WarmStart:
    """The model file that a manifest starts from, as `parley run --start` has left it here; refused unless it is it."""
    assert manifest.start is not None
    path = start_path(state, manifest.start.digest) if state is not None else None
    if path is None or not path.is_file():
        raise RunFailedError(
            f"run {manifest.run} starts from the model {manifest.start.digest[:16]}…, which is not here: submit it "
            "with `parley run RUN.toml --start MODEL.npz`"
        )
    return checked_start(manifest, path)


def checked_start(manifest: Manifest, path: Path) -> WarmStart:
    """Refused unless the file is what the manifest names, for this model and these columns."""
    schema, _ = model_of(manifest)
    try:
        found = read_start(path, manifest.as_json()["model"], schema)
    except PartyError as error:
        raise RunFailedError(str(error)) from None
    if found.start != manifest.start:
        raise RunFailedError(
            f"{path.name} is the model {found.start.digest[:16]}…, and run {manifest.run} starts from another one or "
            "says otherwise whether that one is private: give the file that the manifest was drafted with"
        )
    return found


def keep_start(manifest: Manifest, path: Path, state: Path) -> None:
    """For a person who submits a run: leave the model file where the coordinator looks, also after a restart."""
    if manifest.start is None:
        raise RunFailedError(
            f"the manifest of run {manifest.run} names no start: draft it from a study with `start` in it, so that "
            "whoever admits the run sees where it starts"
        )
    checked_start(manifest, path)
    kept = start_path(state, manifest.start.digest)
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_archive(kept, *read_archive(path))
    force(kept.parent)


def started_from(manifest: Manifest, state: Path) -> dict[str, Any] | None:
    """For the card of the model that comes of a run: what it started from."""
    if manifest.start is None:
        return None
    try:
        return warm_start(manifest, state).as_json()
    except RunFailedError:  # the file went after the run began: what the manifest says of it is still true
        return manifest.start.as_json()


def require_steering(manifest: Manifest, evaluation: Sequence[Path], state: Path) -> None:
    """Before anybody is charged: that this coordinator can start and stop the run as its manifest says."""
    if manifest.start is not None:
        warm_start(manifest, state)
    if manifest.stop_early is not None and not evaluation:
        raise RunFailedError(
            f"run {manifest.run} may stop early by a public set, and this coordinator has none: name one under "
            "[evaluation] in node.toml, or leave rounds.stop_early out of the manifest"
        )
