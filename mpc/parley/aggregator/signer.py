"""What one aggregation server signs: that it takes part in a run, each upload in time, each opened sum, and the end."""

from collections.abc import Callable, Sequence

from parley.aggregator.opening_store import RefusedError
from parley.federation.errors import FederationError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.mpc.covert import COVERT_LABEL, Signing
from parley.mpc.history import Draft
from parley.mpc.randomness import random_bytes
from parley.node import signatures
from parley.node.accounts import sign_account
from parley.node.credentials import Identity
from parley.node.docket import Pair, context_of, signed_by
from parley.node.endings import sign_admission, sign_end
from parley.node.statements import LIFE_BYTES, mode_of, sign_receipt, sign_statement
from parley.v1 import common_pb2
from parley.v1.aggregator_pb2 import Account


class Signer:
    """With the key that is installed when it signs; workers call it too."""

    def __init__(self, role: int, identity: Callable[[], Identity], restored: bytes = b"") -> None:
        """`restored` is what was drawn when this server was last restored from a backup; empty if it never was."""
        self._role, self._identity, self._restored = role, identity, restored
        self._life = random_bytes(LIFE_BYTES)
        """Of this process: who has two words of one server knows whether it was started anew in between."""

    def admission(self, manifest_digest: bytes) -> common_pb2.SignedAdmission:
        """This server's word that it takes part in a run."""
        return sign_admission(self._identity(), manifest_digest, self._restored)

    def receipt(self, manifest: Manifest, index: int, query: bytes, upload: bytes) -> bytes:
        """For a whole half of an upload that is in time for the round's sum: a serialized SignedWord."""
        return sign_receipt(self._identity(), manifest.digest, self._role, self._life, index, query, upload)

    def statement(self, manifest: Manifest, draft: Draft, pending: Sequence[str] = ()) -> bytes:
        """Of a round, before its share may leave: a serialized SignedWord, or a RefusedError.

        `pending` is evidence against the other server that waits for this one's operator, by its digests.
        """
        mode = mode_of(manifest)
        try:
            return sign_statement(self._identity(), manifest.digest, self._role, mode, self._life, draft, pending)
        except FederationError as error:
            raise RefusedError(str(error)) from None

    def signing(self, peer: NodeName, pair: Pair) -> Signing:
        """How a noise session that is audited signs: with the key that is installed when it begins."""
        identity = self._identity()
        return Signing(
            key=identity.pin,
            sign=lambda statement: signatures.sign(identity, COVERT_LABEL, statement),
            peer_keys=lambda: self._identity().pins.of(peer),
            verify=signed_by,
            context=context_of(pair),
        )

    def account(self, account: Account) -> common_pb2.SignedWord:
        """This server's word on all that it has ever admitted of one node."""
        return sign_account(self._identity(), account)

    def end(self, manifest_digest: bytes, openings: int, restored: bytes | None = None) -> common_pb2.SignedEnd:
        """This server's word that a run is over; `restored` for one that had ended before this server was restored."""
        word = self._restored if restored is None else restored
        return sign_end(self._identity(), manifest_digest, openings, word)
