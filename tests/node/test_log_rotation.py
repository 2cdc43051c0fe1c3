"""The log's file."""

import json
from pathlib import Path

from parley.node.log_rotation import RotatingFile


def test_the_file_is_private_and_rotates(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "state" / "log.jsonl", largest_bytes=100)
    for number in range(60):
        file.write(json.dumps({"round": number}))
    file.close()
    file.write("nothing")
    found = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert found == ["log.jsonl", *(f"log.jsonl.{number}" for number in range(1, 5))]
    for path in (tmp_path / "state").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size <= 100
    assert json.loads((tmp_path / "state" / "log.jsonl").read_text().splitlines()[-1]) == {"round": 59}
