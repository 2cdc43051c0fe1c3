"""What two servers that are not there have signed of a run: a history that is in order, unless somebody changes it."""

import hashlib
from collections.abc import Mapping
from typing import Any

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc.history import Contribution, Draft, opening_id
from parley.node.credentials import Identity
from parley.node.statements import mode_of, sign_receipt, sign_statement
from parley.v1 import common_pb2

LIFE = b"l" * 16
EPOCH = b"e" * 16


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Signed:
    """Both servers' statements of one run, from round 0 on."""

    def __init__(self, manifest: Manifest, identities: Mapping[NodeName, Identity]) -> None:
        self.manifest = manifest
        self.identities = [identities[name] for name in manifest.identities(Role.aggregator)]
        self.words: list[list[bytes]] = [[], []]

    def state(self, query: bytes, uploads: Mapping[str, bytes], changes: Mapping[str, Any] | None = None) -> None:
        """The next round, over these uploads and enough of others; `changes` of role 1's draft."""
        found = dict(uploads)
        for party in reversed(self.manifest.parties):  # the first is whose history this is, and given where it is in
            if len(found) < self.manifest.minimum_parties and party not in found:
                found[party] = digest(party)
        for role in (0, 1):
            self.words[role].append(
                self.word(role, query, tuple(sorted(found.items())), (changes or {}) if role else {})
            )

    def word(
        self, role: int, query: bytes, contributions: tuple[Contribution, ...], changes: Mapping[str, Any]
    ) -> bytes:
        index, length = len(self.words[role]), self.manifest.model.dimension
        contributions = changes.get("contributions", contributions)
        start = 7 + index * length
        draft: dict[str, Any] = {
            "round": index, "query": query, "contributions": contributions,
            "opening": opening_id(EPOCH, start, length, contributions), "epoch": EPOCH, "start": start,
            "length": length, "share": digest(f"share {role} {index}"),
            "previous": self.words[role][-1] if index else None,
        }  # fmt: skip
        if self.manifest.noise.parts.audit is not None:
            draft["audits"] = ((2 * index, index), (index, 2 * index))[role]
        draft |= changes
        mode, pending = mode_of(self.manifest), draft.pop("pending", ())
        return sign_statement(self.identities[role], self.manifest.digest, role, mode, LIFE, Draft(**draft), pending)

    def receipt(self, role: int, index: int, query: bytes, upload: bytes, life: bytes = LIFE) -> bytes:
        return sign_receipt(self.identities[role], self.manifest.digest, role, life, index, query, upload)

    def of(self, role: int, index: int, most: int = 1) -> list[common_pb2.SignedWord]:
        return [common_pb2.SignedWord.FromString(word) for word in self.words[role][index : index + most]]
