"""Statements of servers."""

import hashlib

from tests.support.histories import Word, World


def test_digests_cover_the_body_and_not_the_signature(world: World) -> None:
    """One statement has many signatures; its body has one digest."""
    from parley.node.statements import digest_of

    world.state()
    word = world.handed(1)[0]
    again = Word(body=word.body, signature=b"other")
    assert digest_of(word) == digest_of(again)
    assert digest_of(word) == hashlib.sha256(b"parley round statement 1\n" + word.body).digest()
