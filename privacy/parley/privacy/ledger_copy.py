"""A ledger read beside its node, on a copy: no process waits for a reader's lock, and nothing is written."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from parley.privacy.errors import PrivacyError
from parley.privacy.ledger import Ledger
from parley.privacy.store import opened, opened_to_read

COPY_ATTEMPTS = 3


@contextmanager
def copied(path: Path) -> Iterator[Ledger]:
    """As it is now; a PrivacyError, an OSError or a sqlite3.Error where it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for attempt in range(COPY_ATTEMPTS):
            _copy(path, copy)
            try:
                ledger = Ledger.open(copy)
                break
            except PrivacyError:  # an entry more between the two files than a crash leaves: copy them again
                if attempt + 1 == COPY_ATTEMPTS:
                    raise
        with closing(ledger):
            yield ledger


def _copy(path: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    head = path.with_name(path.name + ".head")
    shutil.copyfile(head, copy.with_name(copy.name + ".head"))
    with (
        closing(opened_to_read(path)) as source,
        closing(opened(copy)) as target,
    ):
        source.backup(target)
