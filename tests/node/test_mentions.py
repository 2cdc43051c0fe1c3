"""What nodes say of the heads of their trails to each other."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from parley.federation.names import NodeName, Role
from parley.node import mentions
from parley.node.trail import Trail
from tests.support.trail import NORTH, PARTY


def test_a_mention_counts_only_from_the_peer_it_names(tmp_path: Path) -> None:
    with Trail.open(tmp_path / "a.jsonl", PARTY) as trail:
        event = trail.append("round.answered", round=0)
    assert mentions.by(PARTY, (("other", "x"), *mentions.of(event))) == event
    for peer, metadata in (
        (NORTH, mentions.of(event)),
        (NodeName("cardio", Role.party, "hospital"), mentions.of(event)),
        (PARTY, mentions.of("party/hospital-a/1-malignant")),
        (PARTY, ((mentions.KEY, event.encode()),)),
        (PARTY, ()),
        (PARTY, None),
    ):
        assert mentions.by(peer, metadata) is None


def test_a_mention_travels_with_a_call_and_with_its_answer(tmp_path: Path) -> None:
    heard = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            def answer(request: bytes, context: Any) -> bytes:
                heard.append(mentions.by(PARTY, context.invocation_metadata()))
                context.set_trailing_metadata(mentions.of("aggregator/north/3-0123456789abcdef"))
                return request

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        sent = "party/hospital-a/7-0123456789abcdef"
        ask: Any = channel.unary_unary("/a/B")
        _, call = ask.with_call(b"", metadata=mentions.of(sent))
    server.stop(0)
    assert heard == [sent]
    assert mentions.by(NORTH, call.trailing_metadata()) == "aggregator/north/3-0123456789abcdef"
