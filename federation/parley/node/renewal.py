"""A certificate's renewal by a daily timer: nothing while it lasts, then a request, and what comes back is installed.

Never a new key: that is for people (`rotate`). So neither pins nor the authority change, and no step needs a secret.
"""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from parley.federation.errors import CertificateError
from parley.node import bell
from parley.node.credentials import Identity, NodeFolder, read_file
from parley.node.installation import Pending, install, pending, renew
from parley.node.node_file import NODE_FILE, read_node
from parley.node.pins import UNREADABLE


@dataclass(frozen=True)
class Renewal:
    """What one call found, or did."""

    identity: Identity
    waiting: Pending | None
    """The request that a person has to see to."""
    installed: bool = False

    @property
    def days_left(self) -> float:
        return (self.identity.expires - dt.datetime.now(dt.UTC)) / dt.timedelta(days=1)


def renew_within(folder: NodeFolder, days: int, approved: Path | None) -> Renewal:
    """Safe to repeat: renew a certificate that ends within so many days, as far as that needs nobody."""
    held = Identity.load(folder.installed)
    waiting = pending(folder)
    if waiting is not None and approved is not None and _fits(approved, held, waiting):
        return Renewal(install(folder, read_file(approved), None), None, installed=True)
    found = Renewal(held, waiting)
    if found.days_left > days:
        return Renewal(held, None)
    return Renewal(held, waiting or renew(folder))


def _fits(path: Path, held: Identity, waiting: Pending) -> bool:
    """Whether the file is for the request that waits, which is for the key in use, and is newer than what there is.

    What was installed before may lie there still, and a rotation is installed when peers have accepted it.
    """
    if not path.exists() or waiting.pin != held.pin:
        return False
    try:
        fresh = x509.load_pem_x509_certificates(read_file(path))[0]
    except UNREADABLE:
        raise CertificateError(f"{path.name} is no certificate: put the file of `parley ca approve` there") from None
    return fresh.public_key() == held.private.public_key() and fresh.not_valid_after_utc > held.expires


def tell(folder: NodeFolder, identity: Identity) -> None:
    """The operator, where the node.toml beside the folder says how: the certificate ends soon."""
    home = folder.path.absolute().parent
    if not (home / NODE_FILE).exists():
        return
    node = read_node(home)
    if node.notify is not None:
        what = {"what": bell.CERTIFICATE, "text": bell.SENTENCES[bell.CERTIFICATE]}
        bell.tell(node.notify, bell.message(identity.name, [what]))
