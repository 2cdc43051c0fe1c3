"""`parley ca`: the federation's certificate authority, run by whoever admits its members.

parley ca init cardio --passphrase-file secret.txt
parley ca approve request.pem --fingerprint 3f1a:… --out hospital-a.pem --passphrase-file secret.txt
parley ca revoke party/hospital-a --reason key-compromise --passphrase-file secret.txt
"""

import datetime as dt
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509

from parley.cli.console import emit_json, fail
from parley.cli.options import Json
from parley.cli.passphrase import entered
from parley.cli.revoked import show_revoked
from parley.federation.errors import CertificateError
from parley.node import register
from parley.node.authority import PEM, Authority, federation_of, load_request, request_fingerprint
from parley.node.credentials import certificate_fingerprint, load_certificate, name_in, read_file, read_private
from parley.node.pins import parse_key
from parley.node.revocation import REVOKED_FILE, Revoked, held, require_unrevoked

app = typer.Typer(help="Run the federation's certificate authority.", no_args_is_help=True)
Folder = Annotated[Path, typer.Option("--folder", help="The authority's folder.")]
Passphrase = Annotated[
    Path | None,
    typer.Option(
        help="File with the passphrase of the authority's key, mode 600; - asks for it, or reads what is piped in."
    ),
]
HOME = Path("authority")
KEY = "the authority's key"


class Reason(StrEnum):
    """`parley.node.revocation.REASONS`."""

    key_compromise = "key-compromise"
    left = "left"
    excluded = "excluded"
    unspecified = "unspecified"


@app.command()
def init(
    federation: Annotated[str, typer.Argument(help="The federation's name: a-z, 0-9 and -.", metavar="NAME")],
    folder: Folder = HOME,
    passphrase_file: Passphrase = None,
    json_output: Json = False,
) -> None:
    """Make the certificate authority. This is done once for a federation.

    Next: read the fingerprint out to the operator of every node.

    Example: parley ca init cardio --passphrase-file secret.txt
    """
    authority = Authority.create(federation)
    authority.save(folder, entered(passphrase_file, KEY, confirm=True))
    _show(authority.certificate, passphrase_file is not None, json_output)


@app.command()
def show(folder: Folder = HOME, json_output: Json = False) -> None:
    """Show the fingerprint that every node needs when it first installs a certificate.

    Read it out, by telephone or face to face; do not send it along with the files.

    Example: parley ca show --folder authority
    """
    certificate = load_certificate(read_file(folder / "authority.crt"), "authority.crt")
    encrypted = b"ENCRYPTED" in read_private(folder / "authority.key")
    _show(certificate, encrypted, json_output)


@app.command()
def approve(
    request: Annotated[Path, typer.Argument(help="A node's request.pem.", metavar="FILE")],
    fingerprint: Annotated[str, typer.Option(help="As the node's operator reads it out from `parley node show`.")],
    out: Annotated[Path, typer.Option(help="Where to write the certificate, for `parley node install`.")],
    days: Annotated[int, typer.Option(min=1, max=398, help="How long it is valid.")] = 90,
    folder: Folder = HOME,
    passphrase_file: Passphrase = None,
    json_output: Json = False,
) -> None:
    """Sign a node's request, if its fingerprint is the one that the node's operator read out.

    Next: send the file to the node's operator, who runs `parley node install`.

    Example: parley ca approve request.pem --fingerprint 3f1a:… --out hospital-a.pem
    """
    data = read_file(request)
    made, name = load_request(data)
    authority = Authority.load(folder, entered(passphrase_file, KEY))
    require_unrevoked(folder, authority.certificate, made)
    certificate = authority.approve(data, fingerprint, dt.timedelta(days=days))
    authority.note(folder, certificate, name)
    try:
        out.write_bytes(certificate.public_bytes(PEM) + authority.certificate.public_bytes(PEM))
    except OSError as error:
        raise CertificateError(f"--out {out.name} cannot be written: {error.strerror}") from None
    if json_output:
        emit_json(
            {
                "identity": name_in(certificate).uri,
                "fingerprint": certificate_fingerprint(certificate),
                "authority": authority.fingerprint,
                "expires": certificate.not_valid_after_utc.isoformat(),
            }
        )
    else:
        print(f"approved     {name}\nvalid until  {certificate.not_valid_after_utc:%Y-%m-%d}\nwritten to   {out}")
        print("next         send the file to the node's operator, who runs `parley node install`")


@app.command()
def inspect(
    request: Annotated[Path, typer.Argument(help="A node's request.pem.", metavar="FILE")], json_output: Json = False
) -> None:
    """Show which node a request is for, and its fingerprint, to compare with what its operator reads out.

    Example: parley ca inspect request.pem. Next: parley ca approve
    """
    made, name = load_request(read_file(request))
    if json_output:
        emit_json({"identity": name.uri, "fingerprint": request_fingerprint(made)})
    else:
        print(f"identity     {name}\nfingerprint  {request_fingerprint(made)}")


@app.command()
def revoke(
    what: Annotated[str, typer.Argument(help="ROLE/NAME, or a serial of issued.jsonl.", metavar="NODE")],
    reason: Annotated[Reason, typer.Option(help="Why, for the list.")],
    pin: Annotated[str | None, typer.Option(help="Its key, if an earlier release issued the certificate.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write the list.")] = Path(REVOKED_FILE),
    folder: Folder = HOME,
    passphrase_file: Passphrase = None,
    json_output: Json = False,
) -> None:
    """Revoke a node's certificates: no node that has the list exchanges anything with its keys any more. For good.

    Next: send the list to the coordinator's operator, for `parley node revoked`; it goes to all others with the next
    run or round. A node that is to come back makes a new key.

    Example: parley ca revoke party/hospital-c --reason left
    """
    authority = Authority.load(folder, entered(passphrase_file, KEY))
    key = parse_key(pin) if pin is not None else None
    entries = register.entries_for(folder, authority.federation, what, reason.value, key)
    _listed(register.publish(folder, authority, entries), out, json_output)


@app.command()
def revoked(
    fresh: Annotated[bool, typer.Option("--fresh", help="Sign it again, with today's date and a new number.")] = False,
    out: Annotated[Path, typer.Option(help="With --fresh: where to write the list.")] = Path(REVOKED_FILE),
    folder: Folder = HOME,
    passphrase_file: Passphrase = None,
    json_output: Json = False,
) -> None:
    """Show what is revoked, or make a fresh list: once a month, so that nodes notice if lists are kept from them.

    Example: parley ca revoked --fresh --out revoked.crl
    """
    if fresh:
        authority = Authority.load(folder, entered(passphrase_file, KEY))
        _listed(register.publish(folder, authority, ()), out, json_output)
        return
    found = held(folder, load_certificate(read_file(folder / "authority.crt"), "authority.crt"))
    if found is None:
        fail("nothing was ever revoked: `parley ca revoke` makes the first list")
    show_revoked(found, json_output)


def _listed(made: Revoked, out: Path, json_output: bool) -> None:
    try:
        out.write_bytes(made.data)
    except OSError as error:
        raise CertificateError(f"--out {out.name} cannot be written: {error.strerror}") from None
    show_revoked(made, json_output)
    if not json_output:
        print(f"written to   {out}\nnext         send it to the coordinator's operator, for `parley node revoked`")


def _show(certificate: x509.Certificate, encrypted: bool, json_output: bool) -> None:
    federation = federation_of(certificate)
    fingerprint = certificate_fingerprint(certificate)
    if json_output:
        expires = certificate.not_valid_after_utc.isoformat()
        emit_json({"federation": federation, "fingerprint": fingerprint, "expires": expires, "encrypted": encrypted})
    else:
        print(f"authority    of federation {federation}\nfingerprint  {fingerprint}")
        print(f"valid until  {certificate.not_valid_after_utc:%Y-%m-%d}")
        print(f"key          {'encrypted' if encrypted else 'not encrypted, protected by its mode 600 only'}")
