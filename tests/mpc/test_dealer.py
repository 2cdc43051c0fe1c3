"""The dealer is loud, asked for by name, and impossible in production."""

import inspect

import pytest

from parley.aggregator.pool import NoisePool
from parley.mpc.dealer import Dealer
from parley.mpc.errors import ConfigurationError
from parley.mpc.kernels import kernels
from parley.mpc.session import Session


def test_it_warns_each_time() -> None:
    with pytest.warns(UserWarning, match="INSECURE"):
        Dealer(kernels(), 0, bytes(32), i_know_this_is_insecure=True)


@pytest.mark.parametrize("word", [False, 1, "yes", None])
def test_it_has_to_be_asked_for_by_name(word: object) -> None:
    with pytest.raises(ConfigurationError, match="insecure"):
        Dealer(kernels(), 0, bytes(32), i_know_this_is_insecure=word)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Dealer(kernels(), 0, bytes(32))  # type: ignore[call-arg]


def test_it_does_not_exist_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLEY_ENV", "Production")
    with pytest.raises(ConfigurationError, match="cannot be used in production"):
        Dealer(kernels(), 0, bytes(32), i_know_this_is_insecure=True)


def test_sessions_and_pools_take_no_source_of_transfers() -> None:
    for entry in (Session.__init__, NoisePool.__init__):
        assert not {"source", "dealer", "transfers"} & set(inspect.signature(entry).parameters)
