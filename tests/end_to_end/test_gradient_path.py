"""How far a gradient travels, and that nobody parses a manifest twice: what benchmarks/gradient_path.py measures."""

from typing import Any

import pytest
from benchmarks.gradient_path import figures, measured


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return measured()


@pytest.mark.slow
def test_a_gradient_passes_few_functions_files_and_folders(found: dict[str, Any]) -> None:
    """45, 20 and 12 before messages were looked through for unknown fields and people could be excluded."""
    gradient, upload = found["path"]["gradient"], found["path"]["upload"]
    assert gradient["functions"] <= 48, found["path"]["names"]
    assert gradient["files"] <= 21
    assert gradient["changes_of_folder"] <= 12
    assert upload["functions"] <= 13, found["path"]["names"]["server"]


@pytest.mark.slow
def test_the_path_begins_at_the_records_and_ends_in_the_store_of_shares(found: dict[str, Any]) -> None:
    party, server = found["path"]["names"]["party"], found["path"]["names"]["server"]
    functions = [name for name, _ in (*party, *server)]
    for name in ("Contributor.contribution", "DenseRows.take", "share", "Outbox.put", "Uploader.send", "Upload.add"):
        assert name in functions
    assert functions[-3] == "Upload.add"  # then its commitment is computed


@pytest.mark.slow
def test_every_process_parses_the_manifest_once(found: dict[str, Any]) -> None:
    assert set(found["parsed"].values()) == {1}, found["parsed"]
    roles = sorted(name.split()[0] for name in found["parsed"])
    assert roles == [*["aggregator"] * 2, "coordinator", *["party"] * 3, *["verifying"] * 6]


def test_a_change_of_folder_is_counted_there_and_back() -> None:
    there_and_back = [("f", "party/a.py"), ("g", "mpc/b.py"), ("h", "party/a.py"), ("f", "party/a.py")]
    assert figures(there_and_back) == {"functions": 3, "files": 2, "changes_of_folder": 2}
