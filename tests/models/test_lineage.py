"""Operations that keep records apart are told from those that do not, by what they are and not by what they made."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # in CI, torch is installed for the slow suite alone
F = torch.nn.functional
N = 6


def of(run: Callable[[Any], Any]) -> bool:
    """Whether the rows of what it makes of [N, 4, N] are known to be of one record each."""
    from parley.models.lineage import Lineage

    lineage, rows = Lineage(N), torch.rand(N, 4, N)
    lineage.begin(rows)
    with lineage:
        found = run(rows)
    return lineage.mixes is None and lineage.of_records(found)


WEIGHT = torch.rand(5, N)
APART: dict[str, Callable[[Any], Any]] = {
    "linear over records' own rows": lambda x: F.linear(x, WEIGHT),
    "views within a record": lambda x: x.reshape(N * 2, 2, N).tanh().view(N, -1),
    "a softmax over own axes": lambda x: x.softmax(-1).mean((1, 2)),
    "a transposed record": lambda x: x.transpose(1, 2).contiguous(),
    "a constant in its place": lambda x: torch.cat([x, torch.ones(N, 1, N)], 1),
    "norms over a record": lambda x: F.layer_norm(x, (4, N)) + F.group_norm(x, 2),
    "in place": lambda x: x.tanh().mul_(2).add_(x),
    "a record's numbers, chosen": lambda x: x[:, 0].gather(1, (x[:, 1] > 0.5).long()),
    "a pool": lambda x: F.max_pool2d(x[:, None], 2),
}
MIXED: dict[str, Callable[[Any], Any]] = {
    "a mean over records": lambda x: x - x.mean(0),
    "a mean over all": lambda x: x - x.mean(),
    "a transposed batch": lambda x: x.transpose(0, 2),
    "a batch that lies across": lambda x: x[:, 0] + x[:, 0].t(),
    "one record for all": lambda x: x + x[:1],
    "the other way round": lambda x: x.flip(0),
    "a product of records": lambda x: x[:, 0] @ x[:, 1],
    "a sorted batch": lambda x: x.sort(0).values,
    "a sum that goes on": lambda x: x.cumsum(0),
    "records in a constant": lambda x: torch.zeros(N, N).index_copy_(0, torch.arange(N), x[:, 0]),
    "a softmax over records": lambda x: x.softmax(0),
    "a record's numbers along another's": lambda x: x.new_zeros(N, N, N).add(x[:, 0]),
    "an image of all records": lambda x: F.conv2d(x[:, 0][None, None], torch.ones(N, 1, 1, 1)),
    "records side by side": lambda x: torch.cat([x, x], 0)[:N],
    "statistics of a batch": lambda x: F.batch_norm(x, None, None, training=True),
    "rows of other records, chosen": lambda x: x.view(2 * N, -1).gather(1, (x[:, 0] > 0.5).long()),
    "a norm of all as of one": lambda x: torch.native_group_norm(x, None, None, 1, N, 4 * N, 1, 1e-5)[0],
    "strides across": lambda x: torch.ops.aten._reshape_alias(x[:, 0].contiguous(), [N, N], [1, N]),
    "a loss of all": lambda x: F.mse_loss(x, x * 2).expand(N),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_of_one_record_each_is_known_to_be(name: str) -> None:
    assert of(APART[name])


@pytest.mark.parametrize("name", MIXED)
def test_what_mixes_records_is_not(name: str) -> None:
    assert not of(MIXED[name])


def test_what_an_earlier_pass_left_behind_is_seen_however_it_lay() -> None:
    from parley.models.lineage import Lineage

    stays = torch.zeros(3)
    keeps: list[Callable[[Any], Any]] = [lambda x: stays[:1].add_(x.mean()), lambda x: stays.copy_(x[0, 0, :3])]
    for keep in keeps:
        lineage = Lineage(N)
        for turn in range(2):
            rows = torch.rand(N, 4, N)
            lineage.begin(rows)
            with lineage:
                _ = rows.sum() + stays.sum()
                keep(rows)
            assert lineage.keeps == bool(turn)
