"""Writes the known-answer vectors beside this file. Run only when the protocol changes, and say so in CHANGELOG.md.

python -m tests.vectors.make
"""

import base64
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np

from parley.mpc.channel import Channel, record
from parley.mpc.randomness import Csprng
from parley.mpc.session import Session
from parley.mpc.steps import Bytes, Steps
from parley.mpc.tables import Cover, Precision, check_precision, load
from tests.support.two import run_both
from tests.vectors import make_covert

HERE = Path(__file__).parent
PRESETS = [("strips", "standard"), ("strips", "high"), ("rectangle", "standard")]
LANES = 16


def text(data: Bytes | bytes) -> str:
    return base64.b64encode(bytes(data)).decode()


def replay(cover: Cover, precision: Precision, seeds: tuple[int, int]) -> list[dict[str, Any]]:
    """A whole session of one batch from two seeds: everything each server sent, and what it holds at the end."""
    tables = load(cover, precision)

    def end(role: int, channel: Channel) -> dict[str, Any]:
        sent: list[Bytes] = []
        original = channel.run

        def run(protocol: Steps[Any]) -> Any:
            transcript: list[tuple[Bytes, Bytes]] = []
            result = record(channel, transcript, protocol)
            sent.extend(mine for mine, _ in transcript)
            return result

        channel.run = run  # type: ignore[method-assign]
        session = Session(channel, role, tables, Csprng(bytes([seeds[role]]) * 32))
        channel.next_batch()
        samples = run(session.sampler.batch(LANES))
        channel.run = original  # type: ignore[method-assign]
        return {"session": session.id, "sent": sent, "samples": samples}

    return run_both(end)


def vector(cover: str, precision: str) -> dict[str, Any]:
    seeds = (1, 2)
    names = check_precision(cover, precision)
    ends = replay(*names, seeds)
    scale = load(*names).format.scale_bits
    total = (ends[0]["samples"] + ends[1]["samples"]).view(np.int64)
    return {
        "cover": cover,
        "precision": precision,
        "lanes": LANES,
        "seeds": [text(bytes([seed]) * 32) for seed in seeds],
        "session": text(ends[0]["session"]),
        "servers": [
            {"sent": [text(piece) for piece in end["sent"]], "samples": [str(share) for share in end["samples"]]}
            for end in ends
        ],
        "samples": [int(value) for value in total],
        "scale_bits": scale,
    }


HOSTILE = [
    {"why": "another protocol version", "exchange": 0, "position": 0, "xor": 1, "error": "FrameError"},
    {"why": "both servers claim role 0", "exchange": 0, "position": 16, "xor": 1, "error": "FrameError"},
    {"why": "other tables", "exchange": 0, "position": 17, "xor": 128, "error": "TablesDifferError"},
    {"why": "a base point off the curve", "exchange": 1, "position": 5, "xor": 3, "error": "InvalidPointError"},
    {"why": "a chosen point off the curve", "exchange": 1, "position": 3203, "xor": 1, "error": "InvalidPointError"},
    {"why": "a tree's sum of witnesses altered", "exchange": 2, "position": 130, "xor": 1, "error": "PeerCheatedError"},
    {"why": "a tree's proof altered", "exchange": 2, "position": 6143, "xor": 64, "error": "PeerCheatedError"},
    {"why": "the answer's sum altered", "exchange": 5, "position": 2, "xor": 16, "error": "PeerCheatedError"},
    {"why": "the answer's digest altered", "exchange": 5, "position": 40, "xor": 1, "error": "PeerCheatedError"},
    {"why": "another salt than the sealed one", "exchange": 21, "position": 3, "xor": 1, "error": "SealBrokenError"},
    {
        "why": "another accept share than the sealed one",
        "exchange": 21,
        "position": 32,
        "xor": 2,
        "error": "SealBrokenError",
    },
    {
        "why": "another seal than that of the accept share",
        "exchange": 20,
        "position": 9,
        "xor": 16,
        "error": "SealBrokenError",
    },
]
"""Changes to what server 1 sends, and the error that server 0 must raise."""


def main() -> None:
    covers, precisions = get_args(Cover), get_args(Precision)
    tables = {f"{c}-{p}": load(c, p).digest.hex() for c in covers for p in precisions}
    (HERE / "tables.json").write_text(json.dumps(tables, indent=1) + "\n")
    for cover, precision in PRESETS:
        (HERE / f"session-{cover}-{precision}.json").write_text(json.dumps(vector(cover, precision), indent=0) + "\n")
    (HERE / "hostile.json").write_text(json.dumps(HOSTILE, indent=1) + "\n")
    make_covert.main()


if __name__ == "__main__":
    main()
