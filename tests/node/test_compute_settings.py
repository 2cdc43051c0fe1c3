"""[compute] of a party's node.toml: strict, and TLS and a token with an address."""

from pathlib import Path

import pytest

from parley.federation.fields import Fields
from parley.node.compute_settings import ComputeSettings, compute_settings
from parley.node.errors import NodeFileError

FILES = {"token": "t", "certificate": "c", "key": "k", "authority": "/ca"}


def read(body: dict[str, object]) -> ComputeSettings:
    return compute_settings(Fields({"backend": "ray", **body}, "compute", NodeFileError), Path("/home/node"))


def test_a_local_cluster_has_a_number_of_workers() -> None:
    found = read({"workers": 4})
    assert found == ComputeSettings(workers=4)
    assert found.as_json(Path("/home/node")) == {"backend": "ray", "workers": 4}


def test_an_own_cluster_has_files_that_are_found_from_the_nodes_folder() -> None:
    body = {"workers": 8, "device": "cuda", "address": "head:6379", **FILES}
    found = read(dict(body))
    assert found.token == Path("/home/node/t")
    assert found.authority == Path("/ca")
    assert found.as_json(Path("/home/node")) == {"backend": "ray", **body}
    assert read(found.as_json(Path("/home/node"))) == found


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "workers"), ({"workers": 0}, "workers"), ({"workers": 2, "backend": "dask"}, "backend"),
        ({"workers": 2, "address": "head:6379"}, "token: is missing"),
        ({"workers": 2, "address": "head:6379", **FILES, "key": None}, "key"),
        ({"workers": 2, "token": "t"}, "with an address"), ({"workers": 2, "addres": "h:1"}, "addres"),
        ({"workers": 2, "address": "https://head:6379", **FILES}, "host:port"),
        ({"workers": 2, "device": "tpu"}, "device"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(body: dict[str, object], said: str) -> None:
    with pytest.raises(NodeFileError, match=said):
        read(body)
