"""The audit of the whole path for a small network: honest below the claim, a fault above it.

The path is the product's own (parley.research.release_path): a party's `Contributor`, the route of a user's module, the
kernel, the coordinator's DDP-SRM and the servers' law of noise.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.learning.models import Model
from parley.learning.records import Records as Held
from parley.learning.rows import DenseRows
from parley.models import verified_import
from parley.mpc.clip_sums import clip_sums
from parley.privacy.accountants import accountant
from parley.privacy.audit import Finding, Records, Transcript, neighbour_test
from parley.privacy.mechanism import Mechanism
from parley.research import privacy_audit as command
from parley.research.release_path import LogisticTraining, NoiseSource, servers_noise
from tests.attacks.module_neighbours import BITS, COLUMNS, NAME, installed, spec_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # in CI, torch is installed for the slow suite alone
if TYPE_CHECKING:
    from parley.models.module import TorchModel

Floats = NDArray[np.float64]
UNITS, DELTA = 8, 0.05
SMOOTHNESS = 1e4
"""Steps so short that a record's gradient keeps its direction: what the auditor looks along."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator["TorchModel"]:
    from parley.models.module import TorchModel

    folder = tmp_path_factory.mktemp("installed")
    installed(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        yield TorchModel.open(spec_of("convolutional"), 1, chunk=UNITS)
    verified_import._close(NAME)


class NetworkTraining(LogisticTraining):
    """Of the network from a public start; an auditor sees each release along one record's gradient there."""

    def __init__(self, network: "TorchModel", mechanism: Mechanism, noise: NoiseSource) -> None:
        super().__init__(mechanism, noise, SMOOTHNESS)
        self._network = network
        self._theta = network.initial(np.array([5], np.uint64))
        held = self._held(neighbours()[0])
        gradient = network.gradients(held.rows.take(np.array([0])), held.targets[:1], self._theta)[0]
        assert np.linalg.norm(gradient) > 1  # the clip binds
        self._direction = gradient / np.linalg.norm(gradient)

    def _held(self, records: Records) -> Held:
        return Held(DenseRows.of(records.features.astype(np.int64), BITS), records.labels)

    def model(self, held: Held) -> Model:
        return self._network

    def start(self, model: Model) -> Floats:
        return self._theta

    def run(self, records: Records) -> Transcript:
        found = super().run(records)
        # As the audit reads them: the first number falls where the flipped label has come in.
        return Transcript(tuple(tuple(each @ self._direction[:, None] for each in opened) for opened in found.openings))


def neighbours() -> tuple[Records, Records]:
    """All alike, but for one label."""
    features = np.tile(np.arange(COLUMNS) * 20.0 + 30, (UNITS, 1))
    labels = np.zeros(UNITS)
    return Records(features, labels), Records(features, np.where(np.arange(UNITS) == 0, 1.0, labels))


def examined(network: "TorchModel", noise: NoiseSource, runs: int) -> tuple[Finding, float]:
    mechanism = command.audited(UNITS)
    claim = accountant("pld").epsilon(mechanism.event("audited"), DELTA).epsilon
    path = NetworkTraining(network, mechanism, noise)
    return neighbour_test(path, mechanism, neighbours(), runs, DELTA, 0.95, claim), claim


def test_a_network_stays_below_the_claim_and_reaches_a_third_of_it(network: "TorchModel") -> None:
    finding, claim = examined(network, servers_noise(), 2500)
    assert claim / 3 <= finding.epsilon_lower_bound <= claim


def test_half_the_noise_is_caught(network: "TorchModel") -> None:
    finding, claim = examined(network, command.HalfNoise(servers_noise()), 2500)
    assert finding.epsilon_lower_bound > claim


def test_a_kernel_that_does_not_clip_is_caught(network: "TorchModel", monkeypatch: pytest.MonkeyPatch) -> None:
    from parley.models import module

    def unclipped(*rows: object, gradient_norm: float, difference_norm: float, limit: int, **more: object) -> None:
        clip_sums(*rows, gradient_norm=1e6, difference_norm=difference_norm and 1e6, limit=1 << 21, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "clip_sums", unclipped)
    finding, claim = examined(network, servers_noise(), 1000)
    assert finding.epsilon_lower_bound > claim
