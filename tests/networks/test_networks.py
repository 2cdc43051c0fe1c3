"""The papers' networks have the papers' shapes."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TABLE_5 = [(16, 1, 8, 8), (16,), (32, 16, 4, 4), (32,), (32, 512), (32,), (10, 32), (10,)]
TABLE_6 = [(6, 3, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,), (10, 84), (10,)]


def shapes(net: Any) -> list[tuple[int, ...]]:
    return [tuple(each.shape) for each in net.parameters()]


def test_the_cnn_of_mnist_has_the_layers_of_table_5() -> None:
    from parley.networks import mnist

    net = mnist.cnn()
    assert shapes(net) == TABLE_5
    assert sum(each.numel() for each in net.parameters()) == 26_010
    assert net(torch.zeros(3, 1, 28, 28)).shape == (3, 10)


def test_cnn5_has_the_layers_of_table_6() -> None:
    from parley.networks import cifar

    net = cifar.cnn5(activation="relu")
    assert shapes(net) == TABLE_6
    assert sum(each.numel() for each in net.parameters()) == 62_006
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_the_perceptron_takes_images_and_flat_rows() -> None:
    from parley.networks import mnist

    net = mnist.perceptron()
    assert sum(each.numel() for each in net.parameters()) == 118_282
    assert net(torch.zeros(2, 784)).shape == net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_an_unknown_activation_names_those_there_are() -> None:
    from parley.networks import mnist

    with pytest.raises(ValueError, match="use one of tanh, relu"):
        mnist.cnn(activation="sigmoid")


def test_cnn6_trains_its_dense_layers_alone() -> None:
    from parley.networks import cifar

    net = cifar.cnn6()
    trained = [each for each in net.parameters() if each.requires_grad]
    assert sum(each.numel() for each in trained) == 74_570
    assert len(list(net.parameters())) - len(trained) == 6
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_the_patches_of_a_picture_depend_on_that_picture_alone() -> None:
    from parley.networks import patches

    pictures = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    together = patches.extract(pictures)
    assert together.shape == (5, 1600)
    assert together.min() >= 0
    assert together.std() > 0.01
    for index in range(5):
        assert torch.allclose(patches.extract(pictures[index : index + 1])[0], together[index], atol=1e-4)


def test_the_patches_are_an_extractor_that_the_schema_admits() -> None:
    from parley.learning.transforms import Extractor, transforms_from
    from parley.models.extractor_spec import run_here
    from parley.networks import patches
    from parley.research.experiments.network_cells import PATCHES, TRANSFORMS

    ours = transforms_from(TRANSFORMS["scattering-patches"])[1]
    assert isinstance(ours, Extractor)
    pictures = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    found = run_here((PATCHES,))(ours, pictures.numpy())
    assert torch.allclose(torch.from_numpy(found), patches.extract(pictures), atol=1e-4)


def test_weights_are_read_only_as_they_were_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parley.networks import weights

    arrays = {"a": torch.tensor([[1.0, -2.5], [0.0, 3.0]]), "b": torch.tensor([0.5])}
    digest = weights.write(tmp_path / "some.bin", arrays)
    monkeypatch.setattr(weights, "__file__", str(tmp_path / "weights.py"))
    monkeypatch.setitem(weights.DIGESTS, "some.bin", digest)
    found = weights.read("some.bin", {"a": (2, 2), "b": (1,)})
    assert torch.equal(found["a"], arrays["a"])
    assert torch.equal(found["b"], arrays["b"])
    with pytest.raises(ValueError, match="holds 5 numbers"):
        weights.read("some.bin", {"a": (2, 2)})
    (tmp_path / "some.bin").write_bytes(b"\0" * 10)
    with pytest.raises(ValueError, match="install parley-federation again"):
        weights.read("some.bin", {"a": (2, 2), "b": (1,)})


def test_public_pictures_are_learnt_from(tmp_path: Path) -> None:
    """The command that makes the weights, on a few made-up pictures."""
    from parley.networks import pretrain

    made = torch.randint(0, 256, (128, 3074), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    made[:, 1] %= 100
    (tmp_path / "public_1.bin").write_bytes(bytes(made.flatten().tolist()))
    pictures, labels = pretrain.pictures_of(tmp_path)
    assert pictures.shape == (128, 3, 32, 32)
    assert labels.max() < 100
    assert torch.equal(pictures[3].flatten(), made[3, 2:])
    body = pretrain.pretrained(pictures, labels, epochs=1)
    assert body(torch.zeros(1, 3, 32, 32)).shape == (1, 128, 2, 2)
