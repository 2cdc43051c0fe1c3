"""Checksums of a folder's files, and the releaser's signature over them, by OpenSSH (`ssh-keygen -Y`).

The key is the releaser's: a file, which may be locked by a passphrase or stand for a key that an agent holds. It never
lies in the repository; its public half does, in docs/release-signers, before it signs anything.
"""

import hashlib
import subprocess
from pathlib import Path

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
SIGNERS = "release-signers"
NAME = NAMESPACE = "parley-release"
KIND = "ssh-ed25519"


class SigningError(Exception):
    """The key, or what it signed, is not what it has to be."""


def public_key(key: Path) -> str:
    """Kind and key, of the .pub beside the file; made by `ssh-keygen -t ed25519`."""
    beside = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    try:
        kind, text, *_ = beside.read_text().split()
    except (OSError, ValueError):
        raise SigningError(f"{beside} is not a public key: make one with ssh-keygen -t ed25519 -f {key}") from None
    if kind != KIND:
        raise SigningError(f"{beside} is of kind {kind}: releases are signed by an {KIND} key")
    return f"{kind} {text}"


def require_announced(key: Path, signers: Path, root: Path) -> None:
    """The key is outside of the repository, and the commit that is released names it."""
    if key.resolve().is_relative_to(root.resolve()):
        raise SigningError(f"{key} lies in the repository: move it out, and make a new one if it was ever committed")
    public = public_key(key)
    lines = [line.split("#")[0] for line in signers.read_text().splitlines()]
    if not any(line.startswith(f"{NAME} ") and public in line for line in lines):
        wanted = f'{NAME} namespaces="{NAMESPACE}" {public}'
        raise SigningError(f"docs/{SIGNERS} does not name the key {key}: commit this line, then tag:\n{wanted}")


def write_sums(folder: Path) -> None:
    """SHA-256 of every file, in order of names, as sha256sum reads it."""
    files = sorted(path for path in folder.iterdir() if path.name not in (SUMS, SIGNATURE))
    (folder / SUMS).write_text("".join(f"{digest_of(path)}  {path.name}\n" for path in files))


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sign(folder: Path, key: Path) -> None:
    """Ask for the passphrase at the terminal where the key has one."""
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(folder / SUMS)]
    (folder / SIGNATURE).unlink(missing_ok=True)
    if subprocess.run(command, check=False).returncode:
        raise SigningError(f"{key} did not sign: is its passphrase right, does an agent hold it?")


def require_valid(folder: Path, signers: Path) -> None:
    """What a stranger will find (docs/release.md has the same as commands)."""
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", NAME, "-n", NAMESPACE]
    with (folder / SUMS).open("rb") as sums:
        done = subprocess.run(
            [*command, "-s", str(folder / SIGNATURE)], stdin=sums, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SigningError(f"the signature does not hold: {done.stdout}{done.stderr}")
