"""Every module on docs/neural.md is one: a user who copies it gets what the page says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.models import verified_import
from parley.models.module_spec import ModuleSpec
from tests.docs.blocks import blocks
from tests.docs.pages import ROOT, Page
from tests.support.own_package import installed, schema_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # in CI, torch is installed for the slow suite alone
NAME = "page_models"
MODULES = {"build": ("book", 26_010, 10), "head": ("book", 11_530, 10), "adapted": ("book", 3_688, 10)}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    found = [
        each
        for each in blocks(Page(ROOT / "docs" / "neural.md"))
        if each.about == f"tests/models/{Path(__file__).name}"
    ]
    assert len(found) == 4
    yield installed(tmp_path, monkeypatch, "\n".join(each.source for each in found), NAME)
    verified_import._close(NAME)


@pytest.mark.parametrize("name", [*MODULES, "reader"])
def test_a_module_of_the_page_is_what_the_page_says(page: Path, name: str) -> None:
    from parley.models.module import TorchModel

    body = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.Tanh(), torch.nn.Flatten())
    torch.save(body.state_dict(), page / "body.pt")
    if name == "reader":
        schema, shape, (route, dimension, outputs) = schema_of(whole=50, width=12), [12], ("vmap", 841, 3)
    else:
        schema, shape, (route, dimension, outputs) = schema_of(10, width=784), [1, 28, 28], MODULES[name]
    spec = ModuleSpec.of({"kind": f"torch:{NAME}.nets:{name}", "input": shape}, schema)
    model = TorchModel.open(spec, outputs, chunk=4)
    assert (model.route, model.dimension) == (route, dimension)
