"""What can go wrong in the two-party computation, as types. Nothing here is retried on the same random material."""

from typing import TYPE_CHECKING

from parley.errors import ParleyError

if TYPE_CHECKING:
    from parley.mpc.evidence import Evidence


class MpcError(ParleyError):
    """Base of every error that this room raises on purpose."""


class ConfigurationError(MpcError):
    """The parameters do not fit together; the message says which one to change."""


class RangeError(MpcError):
    """A value could leave the ring, or did."""


class PeerError(MpcError):
    """The other server is absent, late, or sent what the protocol does not allow. The session is over."""


class PeerClosedError(PeerError):
    """The other server closed the connection, or died."""


class PeerTimeoutError(PeerError):
    """The other server did not answer within the deadline."""


class FrameError(PeerError):
    """A frame is not the one the protocol is at: wrong session, batch, step or length."""


class PeerCheatedError(PeerError):
    """A consistency check failed: the other server did not follow the protocol, or its bytes were altered."""


class AcceptedCountError(PeerCheatedError):
    """More or fewer lanes of a batch were accepted than chance makes of an honest one."""


class SealBrokenError(PeerCheatedError):
    """What was opened is not what had been sealed."""


class PositionError(PeerCheatedError):
    """The other server is further ahead in the noise than an honest one can be."""


class CaughtError(PeerCheatedError):
    """An audit found that the other server departed from the noise protocol, and there is proof that anybody can
    check."""

    def __init__(self, message: str, evidence: "Evidence") -> None:
        super().__init__(message)
        self.evidence = evidence


class TermsDifferError(PeerError):
    """The two servers would run a session on different terms: federation, keys or audit rate."""


class EvidenceError(MpcError):
    """These bytes are no evidence."""


class TablesDifferError(PeerError):
    """The two servers would compute with different public tables."""


class InvalidPointError(PeerError):
    """A base oblivious transfer carried bytes that are not a point of the prime-order group."""


class SessionClosedError(MpcError):
    """This session has ended, by an error or on purpose; its random material is gone. Open a new one."""
