"""A ledger that is put back to an old state: it charges nothing before it has what was charged since.

The two entries of it are written here: `restored` when the old state is in place, and `account` once whoever may know
has said what was charged since that state was made. In between no run is charged.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from parley.privacy.chain import Chain
from parley.privacy.errors import InvalidParameterError, LedgerRefusedError
from parley.privacy.filters import Charge
from parley.privacy.ledger_salt import salt_digest, write_salt
from parley.privacy.ledger_state import Population, State

NO_ACCOUNT = (
    "this ledger was put back to an old state, and what was charged since is not known yet: "
    "`parley restore --account NODE`"
)


@dataclass(frozen=True)
class Accounted:
    """A run that was charged after the state that was put back."""

    run: str
    population: str
    charge: Charge
    manifest: str = ""
    """Digest, in hex: two manifests may have one name."""


class PutBack(ABC):
    """The part of a ledger that knows of it."""

    _chain: Chain
    _state: State

    @abstractmethod
    def _writing(self, lasting: bool = True) -> AbstractContextManager[None]: ...

    @abstractmethod
    def _append(self, kind: str, body: dict[str, Any]) -> None: ...

    @abstractmethod
    def _population(self, name: str) -> Population: ...

    def put_back(self, made: int | None, fresh_salt: str = "", servers: Iterable[str] = ()) -> None:
        """This ledger is an old one, of `made` (seconds since 1970) if that is known. `servers` have to account for it.

        A backup has no salt: under a fresh one, rows that were seen before are not recognised by their content.
        """
        if fresh_salt:
            write_salt(self._chain.path, fresh_salt)
        with self._writing():
            if fresh_salt or not self._state.restored:
                salt = salt_digest(fresh_salt) if fresh_salt else ""
                self._append("restored", {"made": made, "salt": salt, "servers": sorted(set(servers))})

    @property
    def waits_for_account(self) -> bool:
        """Whether it was put back, and nobody has said yet what was charged since."""
        return self._state.restored

    @property
    def must_account(self) -> frozenset[str]:
        """Names of servers that were known when it was put back: no edit of node.toml talks one away."""
        return frozenset(self._state.must_account)

    @property
    def made(self) -> int | None:
        """When the state that was put back was made; None where that is not known."""
        return self._state.made

    @property
    def accounted(self) -> dict[str, int]:
        """By manifest, in hex: how many rounds with an answer of this node were told of."""
        return self._state.accounted

    def account(
        self, runs: Sequence[Accounted], rounds: Mapping[str, int], accounts: Mapping[str, str],
        given_up: Sequence[str] = (), by: str = "",
    ) -> None:  # fmt: skip
        """What was charged since, durably; no cap stands against it. From then on runs are charged again.

        `accounts` are the digests of what was signed, by who has signed it. `given_up` are populations whose whole cap
        is spent, because `by` could not have everybody's account.
        """
        if bool(given_up) != bool(by.strip()) and (given_up or self._state.populations):
            raise InvalidParameterError("a cap is given up by somebody who answers for it")
        with self._writing():
            if not self._state.restored:
                raise LedgerRefusedError("this ledger waits for no account: nothing is charged")
            silent = sorted(self._state.must_account - accounts.keys())
            if silent and (not by.strip() or self._state.populations.keys() - set(given_up)):
                raise LedgerRefusedError(f"{', '.join(silent)} must account for this ledger, and did not")
            for name in (*(each.population for each in runs), *given_up):
                self._population(name)
            names = [each.run for each in runs]
            if len(names) != len(set(names)) or self._state.runs.keys() & set(names):
                raise LedgerRefusedError("the account has a run that was charged here: leave it out")
            charged = [
                {"run": each.run, "population": each.population, "manifest": each.manifest}
                | {"charge": each.charge.as_json()}
                for each in runs
            ]
            body = {"runs": charged, "rounds": dict(rounds), "accounts": dict(accounts), "given_up": list(given_up)}
            self._append("account", body | {"by": by})
