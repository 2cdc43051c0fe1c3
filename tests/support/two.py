"""Both servers in one process: a thread each, over links in memory."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from parley.mpc.channel import Channel, Link, MemoryLink
from parley.mpc.dealer import Dealer
from parley.mpc.kernels import kernels
from parley.mpc.randomness import Csprng
from parley.mpc.sampler import Sampler
from parley.mpc.steps import Steps
from parley.mpc.tables import Tables

T = TypeVar("T")
GIVE_UP_SECONDS = 1200.0
"""Whoever computes for as long as this hangs."""
PATIENT_SECONDS = 240.0
"""For the other one's answer, however busy the machine is."""


def run_both(
    end: Callable[[int, Channel], T], links: tuple[Link, Link] | None = None, deadline_seconds: float = PATIENT_SECONDS
) -> list[T]:
    """`end(role, channel)` for both roles; the first error of either side is raised."""
    results = outcomes(end, links, deadline_seconds)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def outcomes(
    end: Callable[[int, Channel], Any],
    links: tuple[Link, Link] | None = None,
    deadline_seconds: float = PATIENT_SECONDS,
) -> list[Any]:
    """As run_both, with what each side raised in place of its result."""
    channels = [Channel(link, deadline_seconds) for link in links or MemoryLink.pair()]
    results: list[Any] = [None, None]

    def go(role: int) -> None:
        try:
            results[role] = end(role, channels[role])
        except Exception as error:
            results[role] = error
            channels[role].close(f"test: {error}")

    threads = [threading.Thread(target=go, args=(role,), daemon=True) for role in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline_seconds + GIVE_UP_SECONDS)
        if thread.is_alive():
            raise AssertionError("a server hangs")
    return results


def run_steps(steps: Callable[[int], Steps[T]]) -> list[T]:
    """Run the two ends of a protocol against each other."""
    return run_both(lambda role, channel: channel.run(steps(role)))


def dealt_sampler(role: int, tables: Tables, seed: int = 0) -> Sampler:
    """A sampler on dealt transfers: fast, insecure, for tests of what stands above the transfers."""
    dealer = Dealer(kernels(), role, seed.to_bytes(32, "little"), i_know_this_is_insecure=True)
    return Sampler(kernels(), role, tables, dealer, Csprng(bytes([role + 1]) * 32))
