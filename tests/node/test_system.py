"""Where a node may run."""

import pytest

from parley.node import system
from parley.node.errors import NodeError


def test_a_node_runs_on_linux_and_says_what_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    system.require_linux()
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(NodeError, match=r"on Linux only: use .* studies, simulations, manifests and predictions run"):
        system.require_linux()
