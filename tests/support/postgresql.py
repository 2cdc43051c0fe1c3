"""A PostgreSQL server of a test's own: Debian's package, a fresh folder, a port of the kernel's, ended by its pid."""

import datetime as dt
import ipaddress
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from parley.demo.local import ReservedPort
from tests.support.until import GIVE_UP_SECONDS, until

INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
BIN = INSTALLED[-1].parent if INSTALLED else None
OWNER = "nobody"
"""Whose the server is where tests run as root, for whom it does not start."""
SECRET = "p@ss:w%rd/é"
"""Nothing in it may go unescaped into an address."""


@dataclass(frozen=True)
class Server:
    """One that runs."""

    port: int
    certificate: Path
    """Its own, by which it can be recognised."""
    secret: str = SECRET

    def url(self, user: str = "owner", secret: str | None = None, database: str = "postgres") -> str:
        from sqlalchemy import URL

        made = URL.create(
            "postgresql", user, self.secret if secret is None else secret, "127.0.0.1", self.port, database
        )
        return made.render_as_string(hide_password=False)

    def do(self, *statements: str, user: str = "owner") -> list[tuple[Any, ...]]:
        """As its owner, past all of our own code; the last statement's rows."""
        import psycopg

        with psycopg.connect(self.url(user), autocommit=True) as connection:
            for each in statements:
                cursor = connection.execute(each.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgresql() -> Iterator[Server]:
    """Answers on loopback, to a password."""
    assert BIN is not None, "apt-get install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="parley-postgresql-"))
    word, certificate, key = folder / "word", folder / "server.crt", folder / "server.key"
    word.write_text(SECRET)
    _certify(certificate, key)
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = pwd.getpwnam(OWNER)
        as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        for path in (folder, word, certificate, key):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    try:
        with _running(BIN, folder, as_owner) as server:
            yield server
    finally:
        shutil.rmtree(folder)


@contextmanager
def _running(programs: Path, folder: Path, as_owner: dict[str, Any]) -> Iterator[Server]:
    asks = subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", "owner", "-A", "scram-sha-256",
         f"--pwfile={folder / 'word'}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
        capture_output=True, cwd=folder, check=False, **as_owner,
    )  # fmt: skip
    assert asks.returncode == 0, asks.stderr.decode()
    port = ReservedPort()
    process = subprocess.Popen(
        [programs / "postgres", "-D", folder / "data", "-k", folder, "-p", str(port.number), "-h", "127.0.0.1", "-F",
         "-c", "ssl=on", "-c", f"ssl_cert_file={folder / 'server.crt'}", "-c", f"ssl_key_file={folder / 'server.key'}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **as_owner,
    )  # fmt: skip
    server = Server(port.number, folder / "server.crt")
    try:
        until(lambda: _answers(server, process))
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # a fast shutdown: sessions are ended
        process.wait(GIVE_UP_SECONDS)
        port.close()


def _certify(certificate: Path, key: Path) -> None:
    """Self-signed, for loopback."""
    made = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "database")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(made.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(made, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    certificate.chmod(0o644)
    form = serialization.PrivateFormat.PKCS8
    key.write_bytes(made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    key.chmod(0o600)


def _answers(server: Server, process: "subprocess.Popen[bytes]") -> bool:
    import psycopg

    assert process.poll() is None, "PostgreSQL has ended"
    try:
        server.do("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
