"""What the code before this layout left behind (tests/vectors/make_old_nodes.py), unpacked."""

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "vectors" / "old-nodes.tar.xz"


def unpack(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (folder / "party" / "state").chmod(0o700)
    return folder
