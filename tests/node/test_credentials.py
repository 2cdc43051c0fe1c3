"""What a node holds: a key of its own, a certificate for one name."""

import datetime as dt
import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from parley.federation.errors import (
    CertificateError,
    ExpiredError,
    KeyExposedError,
)
from parley.node.authority import Authority, ThrowAwayAuthority, Validity
from parley.node.credentials import check_usage
from tests.support.enrolment import AGGREGATOR, PARTY, installed


def test_a_partys_certificate_is_for_dialling_only(tmp_path: Path, authority: Authority) -> None:
    identity = installed(tmp_path, authority, PARTY).load()
    assert list(identity.parsed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    with pytest.raises(CertificateError, match="purposes"):
        check_usage(identity.parsed, AGGREGATOR)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, authority: Authority, mode: int) -> None:
    folder = installed(tmp_path, authority)
    os.chmod(folder.current / "node.key", mode)
    with pytest.raises(KeyExposedError, match="chmod 600"):
        folder.load()


def test_an_expired_identity_says_so_before_anything_is_dialled(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    expired = ThrowAwayAuthority("cardio").issue_as(
        PARTY, Validity(now - dt.timedelta(days=2), now - dt.timedelta(days=1))
    )
    with pytest.raises(ExpiredError, match="node renew"):
        expired.check()
