"""The digest of the program's source."""

from parley.node.software import source_digest, source_files


def test_the_source_digest_covers_code_and_data_but_no_keys() -> None:
    names = set(source_files())
    assert {
        "parley/node/health.py",
        "parley/federation/names.py",
        "parley/demo/data/heart_disease/va.csv",
    } <= names
    assert not [name for name in names if name.endswith((".pyc", ".so", ".pem"))]
    assert source_digest() == source_digest()
