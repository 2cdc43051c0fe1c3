"""A rotation: a node's old key says which key follows it, and the new one that its holder wants it.

`parley node rotate` writes one for the node's peers. By itself it changes nothing: whoever stole the old key can sign
one too, so each peer's operator also has the new key read out before `parley pin accept`. And as it names the key that
it begins from, an old one is no use once it was followed.
"""

import json
from dataclasses import dataclass
from typing import Self

from parley.federation.errors import IdentityError, NotAuthenticatedError, PinError, PinFileError
from parley.federation.fields import Fields
from parley.federation.names import NodeName
from parley.node import signatures
from parley.node.credentials import Identity
from parley.node.pins import key_text, parse_key

LABEL = "rotation 1"
MOST_BYTES = 1 << 13


@dataclass(frozen=True)
class Succession:
    """Two keys of one node, and a signature by each."""

    node: NodeName
    old: bytes
    new: bytes
    by_old: bytes
    by_new: bytes

    @classmethod
    def of(cls, old: Identity, new: Identity) -> Self:
        statement = _statement(old.name, old.pin, new.pin)
        return cls(
            old.name, old.pin, new.pin, signatures.sign(old, LABEL, statement), signatures.sign(new, LABEL, statement)
        )

    def verify(self) -> None:
        """A NotAuthenticatedError unless both keys have signed it."""
        statement = _statement(self.node, self.old, self.new)
        for key, signature in ((self.old, self.by_old), (self.new, self.by_new)):
            if not signatures.signed_by(key, LABEL, statement, signature):
                raise NotAuthenticatedError(
                    f"the rotation of {self.node} is not signed by its {'old' if key == self.old else 'new'} key: have "
                    "its operator send the file of `parley node rotate` again"
                )

    def text(self) -> str:
        body = {"node": self.node.uri, "old": key_text(self.old), "new": key_text(self.new)}
        return json.dumps({**body, "by_old": self.by_old.hex(), "by_new": self.by_new.hex()}, indent=1) + "\n"

    @classmethod
    def parse(cls, data: bytes) -> Self:
        try:
            if len(data) > MOST_BYTES:
                raise ValueError("too long")
            fields = Fields(json.loads(data), "", PinFileError)
            found = cls(
                NodeName.parse(fields.text("node")),
                parse_key(fields.text("old")),
                parse_key(fields.text("new")),
                bytes.fromhex(fields.text("by_old")),
                bytes.fromhex(fields.text("by_new")),
            )
            fields.finish()
        except (ValueError, RecursionError, IdentityError):
            raise PinError("this is not a rotation: give the file that `parley node rotate` wrote") from None
        return found


def _statement(node: NodeName, old: bytes, new: bytes) -> bytes:
    return old + new + node.uri.encode()
