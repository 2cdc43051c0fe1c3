"""A refusal is a word of a peer: any bytes, and never more than a failed call."""

from typing import Any

import grpc

from parley.node.refusals import LONGEST_WORDS, METADATA, refusal_in
from parley.v1 import common_pb2


class Failed(grpc.RpcError, grpc.Call):
    """A call that failed, as gRPC raises it."""

    def __init__(self, detail: bytes) -> None:
        self._detail = detail

    def trailing_metadata(self) -> Any:
        return ((METADATA, self._detail),)

    def code(self) -> Any: ...
    def details(self) -> Any: ...
    def initial_metadata(self) -> Any: ...
    def is_active(self) -> Any: ...
    def time_remaining(self) -> Any: ...
    def cancel(self) -> Any: ...
    def add_callback(self, callback: Any) -> Any: ...


def test_a_refusal_of_strange_bytes_is_a_failed_call_and_no_more() -> None:
    assert refusal_in(Failed(b"\xff\xff\xff")) is None


def test_a_refusal_of_no_known_kind_has_a_name_all_the_same() -> None:
    found = refusal_in(Failed(common_pb2.RefusalDetail(refusal=77, message="x").SerializeToString()))  # type: ignore[arg-type]
    assert found is not None
    assert found.name == "unspecified"


def test_a_refusals_words_are_one_line_of_bounded_length() -> None:
    detail = common_pb2.RefusalDetail(
        refusal=common_pb2.REFUSAL_POLICY, message="\x1b[2Jno\n" + "x" * 100_000, hint="\u202e"
    )
    found = refusal_in(Failed(detail.SerializeToString()))
    assert found is not None
    assert str(found).isprintable()
    assert found.message.startswith("?[2Jno?xxx")
    assert len(found.message) == LONGEST_WORDS
