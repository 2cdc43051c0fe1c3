"""The dashboard of a federation in containers, as a person comes to it: by what deploy/compose-demo.sh says."""

import base64
import hashlib
import io
import re
import socket
import ssl
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from docker.models.containers import Container

from parley.coordinator.store import RunStore, State
from parley.demo.recipe import STUDY
from parley.federation.manifest import Manifest
from parley.federation.meaning import verify
from parley.federation.toml_text import toml_text
from parley.node.credentials import certificate_fingerprint
from parley.privacy.filters import Charge, Cost
from parley.privacy.finite_precision import EXACT
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.docker.engine import COORDINATOR, ROOT, Federation
from tests.support.folders import write_run
from tests.support.until import GIVE_UP_SECONDS

SCRIPT = ROOT / "deploy" / "compose-demo.sh"
STATE = f"/state/{COORDINATOR}"
USER = 10001


@dataclass(frozen=True)
class Told:
    """What `make compose-up` and `make compose-link` print."""

    home: str
    token: str
    fingerprint: str

    @property
    def link(self) -> str:
        return f"{self.home}/login#{self.token}"

    @property
    def port(self) -> int:
        return int(self.home.rpartition(":")[2])


def told(federation: Federation) -> Told:
    """Read from the script's own output."""
    words = [str(SCRIPT), "link"]
    done = subprocess.run(words, env=federation.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    address = re.search(r"(https://127\.0\.0\.1:\d+)/login#(\S+)", done.stdout)
    fingerprint = re.search(r"(?:[0-9a-f]{4}:){15}[0-9a-f]{4}", done.stdout)
    assert address is not None, done.stdout
    assert fingerprint is not None, done.stdout
    return Told(address[1], address[2], fingerprint[0])


def trusting(federation: Federation) -> ssl.SSLContext:
    """TLS 1.3 to whatever the federation's authority has certified."""
    authority = federation.run(COORDINATOR, "cat", "/node/identity/current/authority.crt")
    context = ssl.create_default_context(cadata=authority)
    context.check_hostname = False  # a certificate names a node, not a host
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def presented(federation: Federation, port: int) -> x509.Certificate:
    """The certificate of a new handshake, verified up to the federation's authority."""
    context = trusting(federation)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_SECONDS) as raw,
        context.wrap_socket(raw) as wrapped,
    ):
        return x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")


def trusted_key(federation: Federation, where: Told) -> str:
    """What a browser may trust: the key of the certificate whose fingerprint a person was told."""
    certificate = presented(federation, where.port)
    assert certificate_fingerprint(certificate) == where.fingerprint
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    key = certificate.public_key().public_bytes(serialization.Encoding.DER, public)
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


def study(run: str, rounds: int) -> Manifest:
    """The demonstration's study over so many rounds."""
    algorithm = {**STUDY.algorithm, "passes": 2.0 * rounds - 1}
    return STUDY.replaced(run=run, algorithm=algorithm, deadline_seconds=60.0).manifest()


def submit(federation: Federation, document: Manifest) -> None:
    federation.submit(toml_text(document.as_json()) + "\n")


def seed_history(federation: Federation, document: Manifest, rounds: int, folder: Path) -> None:
    """A made-up run of so many rounds, stopped, in the books on the coordinator's volume.

    No container has computed it: ten thousand rounds would take the demonstration ten minutes and more. Everything
    about it that follows from the manifest (its claim, its charge) is as the product computes it.
    """
    coordinator, holder = federation.container(COORDINATOR), federation.container("holder")
    coordinator.stop(timeout=20)
    try:
        _fetch(holder, folder)
        store = RunStore(folder / "runs.sqlite")
        claim = verify(document).as_json()
        write_run(store, document, rounds, State.stopped, "stopped by the operator", claim)
        store.close()
        ledger = Ledger.open(folder / "ledger.sqlite")
        event = next(iter(document.mechanism.events().values()))
        cost = Cost(document.guarantee.epsilon, document.guarantee.delta)
        charge = Charge(document.mechanism.digest, event, ROW, EXACT, document.guarantee.accountant, cost)
        ledger.reserve(document.run, next(iter(ledger.populations)), charge)
        for place in range(rounds):
            ledger.record(document.run, place, f"{place:064x}")
        ledger.close()
        _give_back(holder, folder)
    finally:
        coordinator.start()
    federation.wait_ready(COORDINATOR)


BOOKS = ("runs.sqlite", "ledger.sqlite", "ledger.sqlite.head")


def _fetch(holder: Container, folder: Path) -> None:
    pieces, _ = holder.get_archive(STATE)
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
        for member in archive.getmembers():
            name = Path(member.name).name
            if name.startswith(BOOKS):
                content = archive.extractfile(member)
                assert content is not None
                (folder / name).write_bytes(content.read())


def _give_back(holder: Container, folder: Path) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name in BOOKS:
            entry = archive.gettarinfo(str(folder / name), name)
            entry.uid = entry.gid = USER
            entry.mode = 0o600
            with (folder / name).open("rb") as file:
                archive.addfile(entry, file)
    leftovers = " ".join(f"{STATE}/{name}-{kind}" for name in BOOKS for kind in ("wal", "shm"))
    holder.exec_run(["sh", "-c", f"rm -f {leftovers}"])
    assert holder.put_archive(STATE, held.getvalue())
