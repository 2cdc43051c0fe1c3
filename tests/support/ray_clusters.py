"""An operator's own Ray cluster on this machine's loopback, with TLS and a token, or without one of them."""

import datetime
import ipaddress
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from parley.compute.cluster import Cluster
from tests.support.descendants import descendants, processes
from tests.support.until import until

HERE = "127.0.0.1"
STARTS = 5
STARTED = "Ray runtime started"


def _written(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o600)


def credentials(folder: Path) -> dict[str, Path]:
    """An authority, one certificate for everybody and a token, in files of this folder."""
    now = datetime.datetime.now(datetime.UTC)
    names = {kind: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, kind)]) for kind in ("ca", "ray")}
    keys = {kind: ec.generate_private_key(ec.SECP256R1()) for kind in names}
    found = {}
    for kind in ("ca", "ray"):
        made = (
            x509.CertificateBuilder()
            .subject_name(names[kind])
            .issuer_name(names["ca"])
            .public_key(keys[kind].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(kind == "ca", None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HERE)), x509.DNSName("localhost")]),
                critical=False,
            )
            .sign(keys["ca"], hashes.SHA256())
        )
        _written(folder / f"{kind}.crt", made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    _written(folder / "ray.key", keys["ray"].private_bytes(serialization.Encoding.PEM, *form))
    _written(folder / "token", secrets.token_hex(32).encode())
    found = {"authority": "ca.crt", "certificate": "ray.crt", "key": "ray.key", "token": "token"}
    return {name: folder / file for name, file in found.items()}


@contextmanager
def operators_cluster(folder: Path, workers: int, *, token: bool = True) -> Iterator[tuple[Cluster, Path]]:
    """How a party reaches it, and the folder where it has its logs; all of it ends here."""
    files = credentials(folder)
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    cluster = replace(Cluster(workers=workers, address=f"{HERE}:{port}"), **files)  # type: ignore[arg-type]
    logs = Path(tempfile.mkdtemp(prefix="ray-"))  # short: sockets are in it
    environment = cluster.environment(folder)
    if not token:
        environment["RAY_AUTH_MODE"] = "disabled"
    said = folder / "said.txt"
    process: subprocess.Popen[bytes] | None = None
    try:
        for _ in range(STARTS):
            with said.open("w") as file:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--head", "--block"),
                        *(f"--port={port}", f"--node-ip-address={HERE}", f"--num-cpus={workers}"),
                        *("--include-dashboard=false", f"--temp-dir={logs}", "--object-store-memory=83886080"),
                        "--disable-usage-stats",
                    ],
                    stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                    env=environment, cwd=folder, start_new_session=True,
                )  # fmt: skip
            if until(partial(_outcome, process, said), "for Ray to start") == STARTED:
                break
            _end(process)
        else:
            raise AssertionError(f"Ray does not start: {said.read_text()[-2000:]}")
        yield cluster, logs
    finally:
        if process is not None:
            _end(process)
        shutil.rmtree(logs, ignore_errors=True)


def _outcome(process: "subprocess.Popen[bytes]", said: Path) -> str:
    """On a machine that is busy Ray gives up on a node of its own now and then."""
    if STARTED in said.read_text():
        return STARTED
    return "" if process.poll() is None else "ended"


def _end(process: "subprocess.Popen[bytes]") -> None:
    whole = {process.pid, *descendants(process.pid)}
    for number in whole:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()
    until(lambda: not whole & processes().keys(), "for Ray to end")
