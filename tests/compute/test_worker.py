"""A worker keeps its shard, answers in pieces, and of what goes wrong it says no more than a class."""

import json

import numpy as np

from parley.compute.shards import as_arrays, made_up
from parley.compute.worker import PIECE, ShardWorker
from tests.support.computed import setting


def told(worker: ShardWorker, order: dict[str, object], arrays: list[np.ndarray]) -> dict[str, object]:
    worker.take(b"".join(each.tobytes() for each in arrays))
    described = [[each.dtype.name, list(each.shape)] for each in arrays]
    found: dict[str, object] = json.loads(worker.act(json.dumps({**order, "arrays": described})))
    return found


def test_an_error_is_named_by_its_class_and_no_value_of_a_record_is_said() -> None:
    given, worker = setting("logistic"), ShardWorker()
    header, held = as_arrays(given.records)
    order = {
        "do": "open", "records": header, "shard_arrays": len(held), "model": {"kind": "logistic"},
        "schema": dict(given.named.schema), "device": "cpu",
    }  # fmt: skip
    assert told(worker, order, [*held, *as_arrays(made_up(given.records, 4))[1]])["state"] == "done"
    secret = np.array([987_654_321], np.int64)
    wrong = {"do": "ask", "of": "records", "question": {}, "chunk": 1, "echo": {}}
    said = told(worker, wrong, [secret, np.ones(1, np.bool_), np.zeros((1, 24))])
    assert said == {"state": "failed", "kind": "KeyError"}
    assert worker.give(0) == b""
    said = told(worker, {**order, "model": {"kind": "no such"}}, [*held, *held])
    assert said == {"state": "failed", "kind": "ModelError"}


def test_pieces_of_another_length_than_was_said_are_refused() -> None:
    worker = ShardWorker()
    worker.take(b"123")
    said = json.loads(worker.act(json.dumps({"do": "open", "arrays": [["int64", [1]]]})))
    assert said["state"] == "failed"
    worker.take(b"12345678")
    said = json.loads(worker.act(json.dumps({"do": "open", "arrays": []})))
    assert said == {"state": "failed", "kind": "ValueError"}


def test_a_piece_is_shorter_than_what_ray_puts_into_its_object_store() -> None:
    assert PIECE + 4096 < 100 * 1024
