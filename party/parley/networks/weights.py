"""What was learnt on public pictures: half-precision numbers in files beside this module, pinned by their SHA-256.

`python -m parley.networks.pretrain` makes them. A file is numbers one after the other and nothing else, so that reading
one runs nothing; its digest stands here, and this file's bytes are in the digest of every module of the package.
"""

import hashlib
from pathlib import Path

import torch

DIGESTS = {
    "cnn6.bin": "224cada48a6516de76e09e29a54125e1be4a66a5793ef4836d35e5b082c97432",
    "patches.bin": "665118d939549469b70c596e6e9ea5875c4f92e8952c0e911062af9577e1d420",
}


def read(name: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Arrays of these shapes, as float32."""
    held = Path(__file__).with_name(name).read_bytes()
    found = hashlib.sha256(held).hexdigest()
    if found != DIGESTS[name]:
        raise ValueError(f"{name} has the digest {found} and not {DIGESTS[name]}: install parley-federation again")
    flat, result, start = torch.frombuffer(bytearray(held), dtype=torch.float16).float(), {}, 0
    for key, shape in shapes.items():
        count = torch.Size(shape).numel()
        result[key] = flat[start : start + count].view(shape)
        start += count
    if start != len(flat):
        raise ValueError(f"{name} holds {len(flat):,} numbers and not {start:,}: install parley-federation again")
    return result


def write(path: Path, arrays: dict[str, torch.Tensor]) -> str:
    """The file that `read` reads; its digest."""
    # Signed 16-bit words are the same bytes: torch hands out no half-precision bytes without NumPy.
    words = torch.cat([each.detach().reshape(-1).half() for each in arrays.values()]).view(torch.uint8)
    held = bytes(words.tolist())
    path.write_bytes(held)
    return hashlib.sha256(held).hexdigest()
