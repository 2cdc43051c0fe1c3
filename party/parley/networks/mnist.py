"""Networks for grey images of 28 x 28: the core paper's CNN, and the perceptron of Zhou and others."""

from torch import nn

from parley.networks.activations import activation_of


def cnn(activation: str = "tanh", classes: int = 10) -> nn.Module:
    """The 4-layer CNN of pytorch-dp's MNIST example (section 6.2, footnote 1; table 5's shapes): 26,010 parameters."""
    act = activation_of(activation)
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), act(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), act(), nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32), act(),
        nn.Linear(32, classes),
    )  # fmt: skip


def perceptron(activation: str = "relu", width: int = 128, classes: int = 10) -> nn.Module:
    """784-128-128-10 (Zhou, Chen, Hong, Wu and Banerjee, section 5): 118,282 parameters."""
    act = activation_of(activation)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, width), act(),
        nn.Linear(width, width), act(),
        nn.Linear(width, classes),
    )  # fmt: skip
