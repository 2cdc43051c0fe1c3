"""Rows of a database as a file of the node's state: taken by its operator, sealed, and all that a run ever reads.

Only `parley schema check` asks the database, in a process that ends with it. Runs are answered from the sealed file, so
what becomes of the database later changes no answer, nor when one is given; and the party's own process knows no
address and no password. The file is there whole or not at all, mode 600.
"""

import hashlib
import json
import stat
import subprocess
import sys
import time
from pathlib import Path

from parley.federation.files import endless
from parley.learning.errors import DataError, PartyError
from parley.learning.sql import json_lines, opened
from parley.node.data_sets import DataSet, Query
from parley.party.seal import Taken
from parley.privacy.durable import replace_durably

MOST_QUERY_BYTES = 1 << 20
MOST_URL_BYTES = 4096


def take(data: DataSet, folder: Path) -> Taken:
    """Ask the database, and put what it gives where the data set's file is; a DataError says what to change.

    Paths in the database's address are from the node's folder.
    """
    assert data.query is not None
    text, at = query_text(data.query), time.time()
    asked = json.dumps({"query": text, "url": str(data.query.url_file), "into": str(data.files[0])})
    _url(data.query.url_file)
    data.files[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "parley.party.snapshot"],
        input=asked.encode(), capture_output=True, cwd=folder, check=False,
    )  # fmt: skip
    try:
        answer = json.loads(done.stdout)
    except ValueError:  # what it wrote may quote the database's address: its code says enough
        raise DataError(f"the process that reads the database ended with code {done.returncode}: try again") from None
    if "error" in answer:
        raise DataError(answer["error"])
    return Taken(at, _digest(text))


def query_text(query: Query) -> str:
    """As node.toml has it, or the file that it names."""
    if isinstance(query.text, str):
        return query.text
    return _read(query.text, MOST_QUERY_BYTES, "query")


def digest_of_query(query: Query) -> str:
    return _digest(query_text(query))


def age(taken: Taken) -> str:
    """For people."""
    seconds = max(0.0, time.time() - taken.at)
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(seconds // length)) > 0:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a minute"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _url(path: Path) -> str:
    """The database's address, which nobody else on this machine may read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}): correct [data] url_file") from None
    if mode & 0o077:
        raise DataError(f"{path.name} has mode {mode:o}, and a password may be in it: chmod 600 {path}")
    return _read(path, MOST_URL_BYTES, "url_file").strip()


def _read(path: Path, most: int, field: str) -> str:
    if endless(path):
        raise DataError(f"{path.name} is no regular file: correct [data] {field}")
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror}): correct [data] {field}") from None
    if len(data) > most:
        raise DataError(f"{path.name} has more than {most:,} bytes: correct [data] {field}")
    try:
        return data.decode()
    except UnicodeError:
        raise DataError(f"{path.name} is not UTF-8 text: convert it") from None


def main() -> None:
    """What is asked for in, one line of JSON out; nothing of the database's address in either."""
    asked = json.loads(sys.stdin.buffer.read())
    try:
        with opened(_url(Path(asked["url"])), asked["query"]) as (names, rows):
            replace_durably(Path(asked["into"]), json_lines(names, rows))
        answer = {}
    except PartyError as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": f"the rows cannot be written ({error.strerror}): make room in the node's state"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
