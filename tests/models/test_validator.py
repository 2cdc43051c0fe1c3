"""Modules of every family take the fastest route that is right; what mixes, branches, draws or keeps is refused."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parley.learning.errors import ModelError
from parley.models import verified_import
from parley.models.module_spec import ModuleSpec, digest_of
from tests.support.own_package import NAME, installed, schema_of

pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # in CI, torch is installed for the slow suite alone
if TYPE_CHECKING:
    from parley.models.module import TorchModel

GOOD = {
    "dense": ("book", 131),
    "convolutional": ("book", 71),
    "grouped": ("vmap", 87),
    "layered": ("vmap", 81),
    "recurrent": ("loop", 268),
    "gated": ("loop", 213),
    "attention": ("vmap", 119),
    "transformer": ("vmap", 211),
    "words": ("vmap", 183),
    "lora": ("book", 62),
    "frozen": ("book", 27),
    "quiet": ("book", 131),
    "evaluated": ("vmap", 147),
    "twice": ("book", 195),
    "number": ("book", 113),
}
"""Each factory of the package, its route, and how many parameters are trained."""
REFUSED = {
    "normalised": "BatchNorm1d, mixes records: use nn.GroupNorm",
    "unkept": "BatchNorm1d, mixes records: use nn.GroupNorm",
    "Mean": "a record's output depends on the records beside it",
    "Branch": r"depends on a record's values .*torch.where for if",
    "Item": r"depends on a record's values .*no .item\(\)",
    "Caught": "depends on a record's values",
    "Chosen": r"depends on a record's values \(aten.nonzero.*no nonzero or boolean index",
    "Counts": "a pass changes a buffer: keep no running statistics",
    "Keeps": "keep nothing from one call to the next",
    "Retained": "uses what an earlier one has kept of records: keep nothing from one call to the next",
    "Warming": "a pass leaves numbers of records behind: keep nothing from one call to the next",
    "Draws": "two passes over the same rows differ: draw nothing",
    "Wide": r"makes \(1, 2\) of 1 records: return a tensor of shape \(records, 3\)",
    "Sorted": "a record's output depends on the records beside it",
    "Pair": r"makes tuple of 1 records: return a tensor of shape \(records, 3\)",
    "Held": r"its loss depends on no trained parameter: use them in forward\(\), without torch.no_grad",
    "Narrow": r"it is given a float32 tensor of shape \(records, 3, 4\); make its first layer fit that",
    "Stray": "it trains what is no parameter of it: register it with nn.Parameter",
    "Shared": "fails on public rows|keep nothing from one call to the next",
    "lazy": "has lazy layers, of no size yet",
    "halved": "is trained and torch.bfloat16: make it float32",
    "nothing": "there is nothing to train",
    "no_module": "returns str: return a torch.nn.Module",
    "broken": r"cannot be built with options \{\}: KeyError: 'weights'",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield installed(tmp_path, monkeypatch)
    verified_import._close(NAME)


def opened(name: str, chunk: int = 8, **more: Any) -> "TorchModel":
    from parley.models.module import TorchModel

    schema = schema_of(1 if name == "number" else 3, 20 if name == "words" else 0)
    spec = ModuleSpec.of({"kind": f"torch:{NAME}.nets:{name}", "input": [3, 4], **more}, schema)
    return TorchModel.open(spec, schema.outputs, chunk=chunk)


@pytest.mark.parametrize("name", GOOD)
def test_a_module_takes_the_fastest_route_that_equals_the_loop(name: str) -> None:
    model = opened(name)
    assert (model.route, model.dimension) == GOOD[name]
    assert len(model.spec.probe) == 4 * (min(model.outputs, 8) + 2)
    assert model.records_per_second is not None
    assert model.records_per_second > 0
    quiet = [note for note in model.findings.notes if "dropout is off" in note]
    assert len(quiet) == (name in ("attention", "transformer", "quiet"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_sum_over_single_records_is_refused_with_what_to_change(name: str) -> None:
    with pytest.raises(ModelError, match=REFUSED[name]):
        opened(name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_norm": 1.0}, "Embedding, rewrites the weights that records look up: leave max_norm out"),
        ({"sparse": True}, "Embedding, has sparse gradients: leave sparse=True out"),
    ],
)
def test_an_embedding_that_writes_its_weights_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        opened("words", options=options)


@pytest.mark.parametrize("name", ["Faint", "Hidden", "Many", "Guarded", "Behind"])
def test_what_mixes_where_no_public_row_shows_it_is_never_shown_two_records(name: str) -> None:
    """The book route would let one record move another's gradient; vmap and the loop show each alone."""
    model = opened(name)
    assert model.route in ("vmap", "loop")
    assert re.search("keeps records apart|backward pass of its own", model.findings.routes["book"])


def test_a_loss_that_mixes_targets_is_never_shown_two_records() -> None:
    """No hostile input shows it: only another target would, of enough records."""
    assert opened("dense", loss=f"torch:{NAME}.nets:crowded").route == "vmap"


def test_a_table_that_is_too_short_for_the_schemas_bounds_is_refused_before_any_record_shows_it() -> None:
    assert opened("words", options={"words": 20}).route == "vmap"
    with pytest.raises(ModelError, match=r"all at their upper bound .*as long as the highest index"):
        opened("words", options={"words": 19})


def test_a_loss_of_ones_own_is_of_the_same_package_and_of_single_records() -> None:
    assert opened("dense", loss=f"torch:{NAME}.nets:smooth").route == "book"
    with pytest.raises(ModelError, match="return one number per record"):
        opened("dense", loss=f"torch:{NAME}.nets:averaged")
    with pytest.raises(ModelError, match="a record's loss depends on the records beside it"):
        opened("dense", loss=f"torch:{NAME}.nets:compared")


def test_a_wrong_option_is_said_in_the_packages_own_words() -> None:
    with pytest.raises(ModelError, match=r"cannot be built with options \{'depth': 3\}: TypeError: .*'depth'"):
        opened("dense", options={"depth": 3})


def test_other_bytes_than_were_agreed_on_are_not_imported(package: Path) -> None:
    spec = ModuleSpec.of({"kind": f"torch:{NAME}.nets:dense"}, schema_of())
    agreed = digest_of(spec, 3)
    assert opened("dense", input=[12], digest=agreed).spec.digest == agreed
    ran = package / "ran"
    (package / "nets.py").write_text(f"open({str(ran)!r}, 'w')\n")
    with pytest.raises(ModelError, match="was agreed on: install the same package"):
        opened("dense", input=[12], digest=agreed)
    assert not ran.exists()


def test_a_package_that_writes_to_itself_is_refused(package: Path) -> None:
    source = (package / "nets.py").read_text()
    (package / "nets.py").write_text(
        source + "\n\ndef writes():\n    open(__file__ + '.log', 'w').close()\n    return dense()\n"
    )
    with pytest.raises(ModelError, match="changed while they were in use"):
        opened("writes")


def test_another_probe_than_the_manifests_is_refused() -> None:
    from parley.models.probe import agree

    probe = list(opened("dense").spec.probe)
    near = [value * (1 + 2e-4) for value in probe]
    assert opened("dense", probe=near).spec.probe == tuple(near), "the manifest's own stay"
    other = [*probe[:-1], probe[-1] * 1.01]
    with pytest.raises(ModelError, match="makes other numbers of public rows here than the manifest says"):
        opened("dense", probe=other)
    rows = len(probe) // 4
    kinds = [slice(0, rows - 2), slice(rows - 2, rows - 1), slice(rows - 1, rows)]
    for index in range(len(probe)):
        alike = next(kind for kind in kinds if kind.start <= index % rows < kind.stop)
        most = max(abs(each) for start in range(0, len(probe), rows) for each in probe[start : start + rows][alike])
        for moved, same in ((0.5e-3, True), (2e-3, False)):
            assert agree(tuple(probe), (*probe[:index], probe[index] + moved * most, *probe[index + 1 :])) == same
    assert not agree(tuple(probe), tuple(probe[:-1]))


def test_a_start_follows_from_public_words_and_the_probe_from_no_draw_of_torchs() -> None:
    model = opened("dense")
    one, other = (model.initial(np.array([word], np.uint64)) for word in (1 << 40, 1 << 41))
    assert np.array_equal(one, opened("dense").initial(np.array([1 << 40], np.uint64)))
    assert not np.array_equal(one, other)
    assert opened("dense").spec.probe == model.spec.probe


def test_a_device_that_is_not_there_is_refused_in_words() -> None:
    import torch

    from parley.models.module import TorchModel

    if torch.cuda.is_available():
        pytest.skip("there is one")
    spec = ModuleSpec.of({"kind": f"torch:{NAME}.nets:dense", "input": [3, 4]}, schema_of())
    with pytest.raises(ModelError, match=r"device is 'cuda', which torch .* cannot use here .*: use cpu"):
        TorchModel.open(spec, 3, device="cuda")


def test_pixels_as_they_are_get_a_note() -> None:
    from dataclasses import replace

    from parley.models.module import TorchModel

    spec = ModuleSpec.of({"kind": f"torch:{NAME}.nets:dense", "input": [3, 4]}, schema_of())
    said = [
        any("numbers of a row reach" in note for note in TorchModel.open(each, 3, chunk=8).findings.notes)
        for each in (spec, replace(spec, reach=((0.0, 255.0),)))
    ]
    assert said == [False, True]
