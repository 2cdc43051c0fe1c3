"""Histories."""

from typing import Any

import pytest

from parley.attacks.words import Signed, digest
from parley.federation.names import Role
from parley.node.authority import ThrowAwayAuthority
from parley.party.errors import AskAgainError
from parley.party.history import History, beginning
from parley.party.outbox import Answer, Seen
from parley.v1 import aggregator_pb2, common_pb2
from tests.support.documents import manifest as made_manifest
from tests.support.stage import PARTY

Word = common_pb2.SignedWord
QUERY, UPLOAD = digest("question"), digest("upload")


class World:
    """A run of two servers, and one party that looks at it."""

    def __init__(self, **changes: Any) -> None:
        """`changes` of the manifest."""
        self.manifest = made_manifest(**changes)
        self.authority = ThrowAwayAuthority(self.manifest.federation)
        self.identities = {name: self.authority.issue_as(name) for name in self.manifest.identities(Role.aggregator)}
        self.signed = Signed(self.manifest, self.identities)
        self.asked: list[tuple[int, int, int]] = []
        self.away: set[int] = set()
        self.receipts: dict[int, Word] = {}
        self.history = self.new()

    def new(self, seen: Seen | None = None) -> History:
        pins = next(iter(self.identities.values())).pins
        return History(self.manifest, PARTY.name, lambda: pins, self.ask, seen or beginning(self.manifest))

    def ask(self, role: int, index: int, most: int) -> aggregator_pb2.StatementsResponse:
        self.asked.append((role, index, most))
        if role in self.away:
            raise AskAgainError("away")
        answer = aggregator_pb2.StatementsResponse(statements=self.signed.of(role, index, most))
        if role in self.receipts:
            answer.receipt.CopyFrom(self.receipts[role])
        return answer

    def state(self, mine: bool = True, **changes: Any) -> None:
        others = {"hospital-b": digest("b"), "hospital-c": digest("c")}
        self.signed.state(QUERY, {PARTY.name: UPLOAD} if mine else others, changes)

    def answer(self, index: int = 0, life: bytes | None = None, roles: tuple[int, ...] = (0, 1)) -> Answer:
        lives = {} if life is None else {"life": life}
        words = {role: Word.FromString(self.signed.receipt(role, index, QUERY, UPLOAD, **lives)) for role in roles}
        return Answer(round_index=index, query=QUERY, upload=UPLOAD, payload_a=b"", payload_b=b"", receipts=words)

    def handed(self, index: int) -> list[Word]:
        return [*self.signed.of(0, index - 1), *self.signed.of(1, index - 1)]

    def follow(self, index: int, last: Answer | None = None, handed: list[Word] | None = None) -> None:
        words = self.handed(index) if handed is None else handed
        self.history.seen = self.history.follow(index, words, last)


@pytest.fixture
def world() -> World:
    return World()
