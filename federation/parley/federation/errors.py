"""What can go wrong among nodes that have to trust each other; each message is one line and says what to change."""

from parley.errors import ParleyError


class FederationError(ParleyError):
    """Base of every error that this room raises on purpose."""


class IdentityError(FederationError):
    """Not the name of a node."""


class FieldError(FederationError):
    """A document has a field that is missing, unknown, of another type or out of range."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class ManifestError(FieldError):
    """A manifest that no role may admit."""


class PolicyError(FieldError):
    """A policy file that cannot be read as one, so it admits nothing."""


class ApprovalError(FederationError):
    """The record of admitted manifests does not allow this."""


class UnusableRecordError(ApprovalError):
    """A store of what people decide failed while it was used: a decision may have been recorded in part."""


class CertificateError(FederationError):
    """A certificate, a key or a request that proves nothing."""


class KeyExposedError(CertificateError):
    """Others than its owner may read a private key."""


class ExpiredError(CertificateError):
    """The certificate's time is over."""


class NotYetValidError(CertificateError):
    """The certificate's time has not begun, by this machine's clock."""


class WrongAuthorityError(CertificateError):
    """Signed by somebody else than the federation's authority."""


class WrongIdentityError(CertificateError):
    """The certificate says that its holder is another node, or no node at all."""


class FingerprintError(CertificateError):
    """The fingerprint read out by the other side is not the one of this file."""


class PinError(CertificateError):
    """A key that cannot be pinned, or that is not the one that is."""


class PinFileError(FieldError, PinError):
    """pins.toml is not what `parley pin` writes."""


class NotPinnedError(PinError):
    """Nothing says here which key is that peer's."""

    def __init__(self, peer: object) -> None:
        super().__init__(
            f"the key of {peer} is not pinned here: have its operator read out the pin that `parley node show` prints "
            f"there, then `parley pin add {peer} PIN`"
        )


class RevokedError(PinError):
    """The authority has revoked the certificate of that peer's key."""

    def __init__(self, peer: object) -> None:
        super().__init__(
            f"the authority has revoked {peer}: nothing is exchanged with it. To come back it makes a new key, "
            f"`parley node rotate`, and its peers `parley pin add {peer} PIN --replace`"
        )


class PeerRefusedError(FederationError):
    """A peer would not talk to this node, or this node would not talk to it."""


class NotAuthenticatedError(PeerRefusedError):
    """The peer could not establish who this node is."""


class NotAuthorisedError(PeerRefusedError):
    """The peer knows who this node is and does not let it call this method."""


class TrailError(FederationError):
    """The audit trail on disk is not the one that was written, or cannot be written any more."""


class TrailRefusedError(FederationError):
    """What was to be recorded is no public fact."""


class EvidenceFileError(FederationError):
    """Evidence that this node keeps cannot be kept, found, read or answered."""
