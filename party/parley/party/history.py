"""What a party has seen of a run's history, by both servers' signed statements, and whether the next goes on from it.

Before a party answers round t + 1 it wants both servers' word about round t. Both must exist, be signed, agree, follow
on what this party has seen before, be of enough parties, and name this party's own upload if both servers have given a
receipt for it. What the coordinator hands over is taken if it is the servers' word; what is missing or is not, this
party asks the servers for itself. A party that was late or away, and so holds no two receipts, goes on.

A server's word that is against the rules ends the party's part in the run, whoever has handed it over: nobody else can
have signed it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node import logs
from parley.node.newer import NewerError
from parley.node.pins import Pins
from parley.node.statements import (
    MOST_STATEMENTS,
    NoWordError,
    Stated,
    StatementError,
    check_agreement,
    check_audits,
    check_statement,
    digest_of,
    read_receipt,
    read_statement,
)
from parley.party.errors import AskAgainError, refused
from parley.party.outbox import Answer, Seen
from parley.v1 import aggregator_pb2, common_pb2

log = logs.logger()
Word = common_pb2.SignedWord
Ask = Callable[[int, int, int], aggregator_pb2.StatementsResponse]
"""A server by its role, from which round, of how many; an AskAgainError where it does not answer."""
MOST_FORGOTTEN = 3
"""Uploads of this party in one run that a server had acknowledged and left out, because it was restarted meanwhile."""


@dataclass
class History:
    """Of one run at one party."""

    manifest: Manifest
    party: str
    pins: Callable[[], Pins]
    ask: Ask
    seen: Seen
    left_out: bool = False
    """A sum was opened without what this party had sent for it."""
    blamed: tuple[str, ...] = ()
    """Whose word was against the rules."""
    pending: dict[str, NodeName] = field(default_factory=dict)
    """Evidence that statements have named, by its digest, and which server has it."""

    def follow(self, index: int, handed: Sequence[Word], last: Answer | None) -> Seen:
        """Everything up to the round before `index`; a typed refusal where a server's word is against the rules.

        Nothing is kept before the outbox has it: `seen` is set by who has stored it.
        """
        seen = self.seen
        try:
            while seen.round < index - 1:
                pair = self._handed(seen.round + 1, handed) if seen.round == index - 2 else None
                pairs = [pair] if pair is not None else self._asked(seen, index - 1)
                for each in pairs:
                    seen = self._next(seen, each, last)
        except StatementError as error:
            self.blamed = error.servers
            where = "the servers are running" if error.servers else "the coordinator and the servers are running"
            raise refused("statement", str(error), f"find out what {where}") from None
        return seen

    def close(self, last: Answer | None) -> Seen:
        """At the run's end: everything that both servers have, asked of themselves."""
        seen = self.seen
        while True:
            try:
                for each in self._asked(seen, seen.round + MOST_STATEMENTS):
                    seen = self._next(seen, each, last)
            except AskAgainError:
                return seen

    # ------------------------------------------------------------ whose word it is

    def _handed(self, index: int, words: Sequence[Word]) -> list[Stated] | None:
        """By the coordinator; None where it is not both servers' word, for which a server is not to blame."""
        if len(words) != 2:
            return None
        try:
            return [self._read(word, role, index) for role, word in enumerate(words)]
        except NoWordError:
            return None

    def _asked(self, seen: Seen, last: int) -> list[list[Stated]]:
        """Of the servers themselves, from the round after the one seen on; that one is compared with what was seen."""
        start = max(seen.round, 0)
        most = min(MOST_STATEMENTS, last - start + 1)
        answers = [[*self.ask(role, start, most).statements] for role in (0, 1)]
        have = min(len(words) for words in answers)
        pairs = []
        for place in range(have):
            if start + place <= seen.round:
                for role, words in enumerate(answers):
                    self._require_same(words[place], role, seen)
                continue
            pairs.append([self._said(words[place], role, start + place) for role, words in enumerate(answers)])
        if not pairs:
            raise AskAgainError(
                f"the servers have no statements of round {seen.round + 1} yet: ask for the round again"
            )
        return pairs

    def _require_same(self, word: Word, role: int, seen: Seen) -> None:
        """As it was seen: then its key was pinned, which may have been replaced since."""
        if digest_of(word) != seen.digests[role]:
            name = self._said(word, role, seen.round).server.name
            raise StatementError(f"aggregator {name} has stated round {seen.round} in two ways", name)

    def _said(self, word: Word, role: int, index: int) -> Stated:
        """From the server itself, over its own connection: nobody else can have spoiled it."""
        try:
            return self._read(word, role, index)
        except NoWordError as error:
            raise StatementError(str(error), self.manifest.identities(Role.aggregator)[role].name) from None

    def _read(self, word: Word, role: int, index: int) -> Stated:
        try:
            return read_statement(word, self.manifest, role, index, self.pins())
        except NewerError as error:
            log.warning("a server's signed word is of a newer release", run=self.manifest.run, error=error)
            raise AskAgainError(str(error)) from None  # nobody's fault, and mended by an upgrade of this node

    # ------------------------------------------------------------ what it says

    def _next(self, seen: Seen, pair: Sequence[Stated], last: Answer | None) -> Seen:
        for stated, digest in zip(pair, seen.digests, strict=True):
            check_statement(stated, self.manifest, digest)
        check_agreement(pair)
        audited = check_audits(seen.audited, pair) if self.manifest.noise.parts.audit else None
        self.pending |= {digest.hex(): stated.server for stated in pair for digest in stated.said.evidence}
        index = seen.round + 1
        answered = last if last is not None and last.round_index == index else None
        forgotten = self._own(pair, answered, index)
        if forgotten and seen.forgotten >= MOST_FORGOTTEN:
            raise StatementError(
                f"aggregators {pair[0].server.name} and {pair[1].server.name} have left out uploads of this party "
                f"{seen.forgotten + 1} times, each time after a restart that followed their receipts",
                *(stated.server.name for stated in pair),
            )
        return replace(
            seen,
            round=index,
            digests=(pair[0].digest, pair[1].digest),
            forgotten=seen.forgotten + forgotten,
            audited=audited,
        )

    def _own(self, pair: Sequence[Stated], answered: Answer | None, index: int) -> bool:
        """Whether a server has forgotten, by its own word, what it had acknowledged."""
        both = [stated.server.name for stated in pair]
        names = "aggregators " + " and ".join(both)
        stated = pair[0].contributions.get(self.party)
        if answered is None:
            if stated is not None:
                raise StatementError(f"{names} state an upload to round {index} that this party has not made", *both)
            return False
        if stated is not None and stated != answered.upload:
            raise StatementError(f"{names} state another upload to round {index} than this party's", *both)
        said = pair[0].said
        if answered.query != said.query_digest or not answered.answers(said.length, self.manifest.share_bits):
            if stated is not None:
                raise StatementError(f"{names} state this party's upload to another question than its own", *both)
            # An honest server drops an upload to another question, or of another length, than it was asked to open,
            # whatever receipt it gave before; and has it in no statement.
            raise StatementError(
                f"the sum of round {index} is of another question than this party was asked: the coordinator has asked "
                "two, or the servers say what is not so"
            )
        if stated is not None:
            return False
        self.left_out = True
        lives = [self._acknowledged(answered, role, index) for role in (0, 1)]
        if None in lives:
            return False
        if all(life == stated.said.life for life, stated in zip(lives, pair, strict=True)):
            what = f"{names} have left out of round {index} an upload that both had given a receipt for"
            raise StatementError(what, *both)
        return True

    def _acknowledged(self, answered: Answer, role: int, index: int) -> bytes | None:
        """In which life that server has said that the upload is there in time; None if it has not."""
        word = answered.receipts.get(role)
        if word is None:
            try:
                response = self.ask(role, index, 1)
            except AskAgainError:
                return None
            if not response.HasField("receipt"):
                return None
            word = response.receipt
        try:
            said = read_receipt(word, self.manifest, role, index, self.pins())
        except NewerError as error:
            raise AskAgainError(str(error)) from None
        except NoWordError:
            return None
        right = (said.query_digest, said.upload_digest) == (answered.query, answered.upload)
        return said.life if right else None


def beginning(manifest: Manifest) -> Seen:
    """Of who has seen nothing yet."""
    return Seen(-1, (manifest.digest, manifest.digest), 0)
