"""Learns what CNN6 and the patches freeze, on public pictures: a part of CIFAR-100, and no private record.

    OMP_NUM_THREADS=1 python -m parley.networks.pretrain --data DIR/cifar100

writes cnn6.bin and patches.bin beside this module and prints their digests, which belong into `weights.DIGESTS`. Files
are the publisher's binary records (coarse label, fine label, 3,072 pixels), plain or .xz. The same bytes come out only
of the same torch on the same processor: what counts is the digest of the file that is shipped.
"""

import argparse
import lzma
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from parley.networks import patches, weights
from parley.networks.cifar import convolutions

RECORD, PIXELS, CLASSES = 3074, 3072, 100
CENTRE, SPREAD = 0.47, 0.25
"""As the schema of `parley reproduce cifar10` scales pixels from 0 to 1."""
EPOCHS, BATCH, STEP, SEED = 8, 128, 2e-3, 14


def pictures_of(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """uint8[n, 3, 32, 32] and fine labels of all files there."""
    files = sorted(folder.glob("*.bin*"))
    if not files:
        raise SystemExit(f"{folder} holds no .bin file: give the folder with CIFAR-100's binary records")
    held = b"".join(lzma.decompress(each.read_bytes()) if each.suffix == ".xz" else each.read_bytes() for each in files)
    records = torch.frombuffer(bytearray(held), dtype=torch.uint8).view(-1, RECORD)
    return records[:, 2:].reshape(-1, 3, 32, 32), records[:, 1].long()


def augmented(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirrored or not, and moved by up to two pixels: the whole batch alike."""
    if torch.rand((), generator=generator) < 0.5:
        batch = batch.flip(3)
    down, right = (int(each) for each in torch.randint(0, 5, (2,), generator=generator))
    return functional.pad(batch, (2, 2, 2, 2))[:, :, down : down + 32, right : right + 32]


def pretrained(pictures: torch.Tensor, labels: torch.Tensor, epochs: int) -> nn.Sequential:
    """CNN6's convolutions, trained with dense layers of their own over 100 classes, without privacy."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    body = convolutions()
    net = nn.Sequential(body, nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, CLASSES))
    descent = torch.optim.AdamW(net.parameters(), weight_decay=0.01)
    rounds = epochs * (len(pictures) // BATCH)
    steps = torch.optim.lr_scheduler.OneCycleLR(descent, STEP, total_steps=rounds)
    for epoch in range(epochs):
        began, total = time.process_time(), 0.0
        for chosen in torch.randperm(len(pictures), generator=generator).split(BATCH)[: rounds // epochs]:
            batch = augmented((pictures[chosen].float() / 255 - CENTRE) / SPREAD, generator)
            loss = functional.cross_entropy(net(batch), labels[chosen])
            descent.zero_grad()
            loss.backward()
            descent.step()
            steps.step()
            total += float(loss.detach())
        seconds = time.process_time() - began
        print(f"epoch {epoch + 1}: loss {total * epochs / rounds:.3f}, {seconds:.0f} CPU s", flush=True)
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn cnn6.bin and patches.bin on public pictures.")
    parser.add_argument("--data", type=Path, required=True, help="folder with CIFAR-100's binary records")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--only", choices=("cnn6", "patches"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    pictures, labels = pictures_of(given.data)
    print(f"{len(pictures):,} public pictures", flush=True)
    if given.only != "cnn6":
        chosen = patches.learnt(pictures[:4000].float() / 255, torch.Generator().manual_seed(SEED))
        digest = weights.write(given.out / "patches.bin", dict(chosen.named_buffers()))
        print(f"patches.bin {digest}", flush=True)
    if given.only != "patches":
        body = pretrained(pictures, labels, given.epochs)
        print(f"cnn6.bin {weights.write(given.out / 'cnn6.bin', body.state_dict())}", flush=True)


if __name__ == "__main__":
    main()
