"""Networks for colour images of 32 x 32: CNN5 and CNN6 of the core paper (section 6.2)."""

from torch import nn

from parley.networks import weights
from parley.networks.activations import activation_of


def cnn5(activation: str = "tanh", classes: int = 10) -> nn.Module:
    """The PyTorch tutorial's network (section 6.2, footnote 2; table 6's shapes): 62,006 parameters."""
    act = activation_of(activation)
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), act(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), act(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), act(),
        nn.Linear(120, 84), act(),
        nn.Linear(84, classes),
    )  # fmt: skip


def cnn6(activation: str = "tanh", classes: int = 10) -> nn.Module:
    """Three convolutions learnt on CIFAR-100 and frozen, three dense layers that are trained: 74,570 parameters.

    The paper says 32, 64 and 128 filters and three dense layers "as in Abadi et al."; kernels, pools and the widths of
    the dense layers are chosen here. Pictures are of mean 0 and deviation 1, near enough.
    """
    act = activation_of(activation)
    body = convolutions()
    found = weights.read("cnn6.bin", {name: tuple(each.shape) for name, each in body.state_dict().items()})
    body.load_state_dict(found)
    body.requires_grad_(False)
    return nn.Sequential(
        body,
        nn.Flatten(),
        nn.Linear(512, 128), act(),
        nn.Linear(128, 64), act(),
        nn.Linear(64, classes),
    )  # fmt: skip


def convolutions() -> nn.Sequential:
    """CNN6's, which `pretrain` trains and `cnn6` freezes: always with ReLU."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
    )  # fmt: skip
