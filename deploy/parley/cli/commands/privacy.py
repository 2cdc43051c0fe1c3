"""`parley privacy`: what a run costs, and what a cost buys.

    parley privacy epsilon --records 32561 --batch 100 --rounds 651 --noise-multiplier 1.69 --delta 1e-5 --json
    parley privacy calibrate --records 32561 --batch 100 --rounds 651 --epsilon 0.2 --delta 1e-5 --json
    parley privacy calibrate --records 32561 --batch 100 --rounds 651 --epsilon 0.2 --delta 1e-5 --worst-epsilon 1
    parley privacy rounds --records 32561 --batch 100 --noise-multiplier 1.69 --epsilon 0.2 --delta 1e-5 --json

The noise multiplier is σ over the replace-one sensitivity of the released sum; rounds are releases, of which DDP-SRM
with T steps makes T + 1.
"""

import math
import time
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail, progress
from parley.cli.options import Audit, Json, Security
from parley.mpc.errors import ConfigurationError
from parley.mpc.parts import NoiseParts, parts_of, usual_own
from parley.privacy.accountants import Accountant, accountant, require_delta, trajectory
from parley.privacy.calibration import largest_count, smallest_noise
from parley.privacy.errors import InvalidParameterError
from parley.privacy.event import Event, NeighbouringRelation, SampledGaussian
from parley.privacy.finite_precision import EXACT, FinitePrecision
from parley.privacy.lying import NO_GUARANTEE, Servers
from parley.privacy.paper_accountant import PaperAccountant
from parley.privacy.sampling import FixedSize, Poisson, Sampler, require_whole

app = typer.Typer(help="Account for a run's privacy, or calibrate its noise.", no_args_is_help=True)

Records = Annotated[int, typer.Option(help="Units of privacy that one party holds.")]
BatchSize = Annotated[int, typer.Option("--batch", help="Units drawn per round; the mean of it under poisson.")]
Rounds = Annotated[int, typer.Option(help="Releases.")]
Noise = Annotated[float, typer.Option(help="Deviation of the noise over the replace-one sensitivity of the sum.")]
Epsilon = Annotated[float, typer.Option(help="The epsilon to stay within.")]
Delta = Annotated[float, typer.Option(help="The delta at which epsilon is stated.")]
SamplingName = Annotated[str, typer.Option("--sampling", help="wor (fixed size, without replacement) or poisson.")]
Cap = Annotated[int | None, typer.Option(help="Public batch length under poisson; by default the least that is safe.")]
AccountantName = Annotated[str, typer.Option("--accountant", help="pld, rdp, paper or lower.")]
Relation = Annotated[str, typer.Option(help="replace-one, or add-or-remove for comparisons.")]
Own = Annotated[
    float | None, typer.Option(help="What each server adds of its own, over what they sample together: 0 to 1.")
]
SecurityName = Annotated[
    Security, typer.Option("--security", help="covert: servers audit each other; malicious: each adds a whole sample.")
]
AuditRate = Annotated[
    Audit | None, typer.Option("--audit", help="Under covert: the share of the noise that each server audits. [1/8]")
]


@app.command()
def epsilon(
    records: Records,
    batch: BatchSize,
    rounds: Rounds,
    noise_multiplier: Noise,
    delta: Delta,
    sampling: SamplingName = "wor",
    accountant_name: AccountantName = "pld",
    relation: Relation = "replace-one",
    cap: Cap = None,
    every: Annotated[int, typer.Option(help="Also report epsilon and the RDP curve after every so many rounds.")] = 0,
    own: Own = None,
    security: SecurityName = Security.semi_honest,
    audit: AuditRate = None,
    json: Json = False,
) -> None:
    """Compute what a run costs: its epsilon at a delta, and what one dishonest server could make of it.

    The noise multiplier is of all noise that a claim counts: what the servers sample together and one server's own.

    Example: parley privacy epsilon --records 32561 --batch 100 --rounds 651 --noise-multiplier 1.69 --delta 1e-5
    """
    parts = _parts(security, own, audit)
    chosen = _chosen(accountant_name)
    event = _event(records, batch, rounds, noise_multiplier, delta, sampling, relation, cap)
    started = time.perf_counter()
    reading = chosen.epsilon(event, delta)
    result = _described(event, accountant_name, delta) | {
        "epsilon": _finite(reading.epsilon, delta),
        "noise_multiplier": noise_multiplier,
        "rounds": rounds,
        **_if_a_server_lies(chosen, event, delta, parts, reading.epsilon),
        "seconds": time.perf_counter() - started,
    }
    if reading.rdp_order is not None:
        result["rdp_order"] = reading.rdp_order
    if every:
        result["trajectory"] = _trajectory(event, delta, require_whole("every", every, 1, rounds))
    unmet = _unmet(chosen, event, delta, result)
    if json:
        emit_json(result)
    else:
        print(f"epsilon {reading.epsilon:.5g} at delta {delta:g} ({accountant_name}, {sampling}, {relation})")
        print(_said(result))
    _stop_where_unmet(unmet)


@app.command()
def calibrate(
    records: Records,
    batch: BatchSize,
    rounds: Rounds,
    epsilon: Epsilon,
    delta: Delta,
    sampling: SamplingName = "wor",
    accountant_name: AccountantName = "pld",
    relation: Relation = "replace-one",
    cap: Cap = None,
    own: Own = None,
    security: SecurityName = Security.semi_honest,
    audit: AuditRate = None,
    worst_epsilon: Annotated[
        float | None, typer.Option(help="What a server that lies may cost: the least own noise that keeps to it.")
    ] = None,
    json: Json = False,
) -> None:
    """Find the smallest noise that keeps a run within an epsilon at a delta.

    Example: parley privacy calibrate --records 32561 --batch 100 --rounds 651 --epsilon 0.2 --delta 1e-5
    """
    if own is not None and worst_epsilon is not None:
        raise InvalidParameterError(
            "--own and --worst-epsilon are both given: one of them chooses, leave the other out"
        )
    parts = _parts(security, own, audit)
    chosen = _chosen(accountant_name)
    event = _event(records, batch, rounds, 1.0, delta, sampling, relation, cap, epsilon)
    started = time.perf_counter()
    noise, reading = smallest_noise(chosen, event, epsilon, delta)
    result = _described(event, accountant_name, delta) | {
        "noise_multiplier": noise,
        "epsilon": reading.epsilon,
        "rounds": rounds,
        **_least_own(chosen, event.with_noise(noise), delta, parts, reading.epsilon, worst_epsilon),
        "seconds": time.perf_counter() - started,
    }
    unmet = _unmet(chosen, event.with_noise(noise), delta, result)
    if json:
        emit_json(result)
    else:
        print(
            f"noise multiplier {noise:.5g} gives epsilon {reading.epsilon:.5g} at delta {delta:g} ({accountant_name})"
        )
        print(_said(result))
    _stop_where_unmet(unmet)


@app.command()
def rounds(
    records: Records,
    batch: BatchSize,
    noise_multiplier: Noise,
    epsilon: Epsilon,
    delta: Delta,
    sampling: SamplingName = "wor",
    accountant_name: AccountantName = "pld",
    relation: Relation = "replace-one",
    cap: Cap = None,
    json: Json = False,
) -> None:
    """Find the largest number of rounds that a noise keeps within an epsilon at a delta.

    Example: parley privacy rounds --records 32561 --batch 100 --noise-multiplier 1.69 --epsilon 0.2 --delta 1e-5
    """
    chosen = accountant(accountant_name)
    one = _event(records, batch, 1, noise_multiplier, delta, sampling, relation, cap, epsilon)
    started = time.perf_counter()
    count, reading = largest_count(chosen, one, epsilon, delta)
    result = _described(one, accountant_name, delta) | {
        "rounds": count,
        "epsilon": reading.epsilon,
        "noise_multiplier": noise_multiplier,
        "conditions_met": True,
        "seconds": time.perf_counter() - started,
    }
    if json:
        emit_json(result)
    else:
        print(f"{count} rounds give epsilon {reading.epsilon:.5g} at delta {delta:g} ({accountant_name})")


def _parts(security: str, own: float | None, audit: str | None) -> NoiseParts:
    try:
        return parts_of(security, usual_own(security) if own is None else own, audit)
    except ConfigurationError as error:
        raise InvalidParameterError(str(error)) from None


def _exact(samples: int, epsilon: float, delta: float) -> FinitePrecision:
    """Without a dimension there is nothing to certify: the figures of this command are of exact Gaussian noise."""
    return EXACT


def _if_a_server_lies(
    chosen: Accountant, event: Event, delta: float, parts: NoiseParts, epsilon: float
) -> dict[str, Any]:
    servers = Servers(parts.samples, parts.left_by_a_liar, _exact)
    known = event.relation is NeighbouringRelation.REPLACE_ONE and chosen.certifies
    lying = servers.epsilon_if_one_lies(event, 1, delta, chosen, epsilon) if known else None
    return {
        "security": parts.security,
        "own": parts.own,
        "audit": parts.audit,
        "epsilon_if_a_server_lies": lying,
        "audits": parts.audits,
    }


def _least_own(
    chosen: Accountant, event: Event, delta: float, parts: NoiseParts, epsilon: float, worst_epsilon: float | None
) -> dict[str, Any]:
    """With a `worst_epsilon` the least own noise that keeps to it; the noise that the claim counts stays the same."""
    if worst_epsilon is None:
        return _if_a_server_lies(chosen, event, delta, parts, epsilon)
    found = [_if_a_server_lies(chosen, event, delta, each, epsilon) for each in parts.with_more_of_its_own]
    for each in found:
        lying = each["epsilon_if_a_server_lies"]
        if lying is not None and lying <= worst_epsilon:
            return each
    raise InvalidParameterError(
        f"worst_epsilon is {worst_epsilon:g}; the most own noise gives {_worst(found[-1])}: raise it, lower epsilon, "
        "or choose --security malicious"
    )


def _said(result: dict[str, Any]) -> str:
    return f"{_worst(result)}\n{result['audits']}" if result["audits"] else _worst(result)


def _worst(result: dict[str, Any]) -> str:
    lying = result["epsilon_if_a_server_lies"]
    how = f"{result['security']}, own {result['own']:g}"
    return f"{NO_GUARANTEE} ({how})" if lying is None else f"epsilon {lying:.5g} if a server lies ({how})"


def _chosen(name: str) -> Accountant:
    """The accountant; the paper's shows its figure and says by its exit code that its conditions fail."""
    return PaperAccountant(ignore_conditions=True) if name == "paper" else accountant(name)


def _event(
    records: int,
    batch: int,
    rounds: int,
    noise: float,
    delta: float,
    sampling: str,
    relation: str,
    cap: int | None,
    epsilon: float = 0.0,
) -> Event:
    """`epsilon` is what is aimed at, if anything."""
    allowance = Poisson.overflow_allowance(require_delta(delta), epsilon)
    release = SampledGaussian(_sampler(records, batch, rounds, allowance, sampling, cap), noise, rounds)
    known = {item.value: item for item in NeighbouringRelation}
    if relation not in known:
        raise InvalidParameterError(f"no neighbouring relation {relation!r}: choose replace-one or add-or-remove")
    return Event((release,), known[relation])


def _sampler(records: int, batch: int, rounds: int, allowance: float, sampling: str, cap: int | None) -> Sampler:
    require_whole("rounds", rounds, 1, 10_000_000)
    if sampling == "wor":
        if cap is not None:
            raise InvalidParameterError("a fixed batch size has no cap: leave --cap out, or choose --sampling poisson")
        return FixedSize(records, batch)
    if sampling != "poisson":
        raise InvalidParameterError(f"no sampling {sampling!r}: choose wor or poisson")
    if cap is not None:
        return Poisson(records, batch, cap)
    return Poisson.with_overflow(records, batch, rounds, allowance)


def _described(event: Event, name: str, delta: float) -> dict[str, Any]:
    sampler = event.releases[0].sampler
    return {
        "delta": delta,
        "accountant": name,
        "guarantee": name != "lower",
        "sampling": sampler.kind,
        "relation": event.relation.value,
        "records": sampler.units,
        "batch": sampler.mean_batch,
        "batch_length": sampler.length,
        "overflow_probability": event.overflow_probability,
    }


def _unmet(chosen: Accountant, event: Event, delta: float, result: dict[str, Any]) -> tuple[str, ...]:
    """Write the conditions into the result; those that fail."""
    if not isinstance(chosen, PaperAccountant):
        result["conditions_met"] = True
        return ()
    found = chosen.read(event, delta)
    result["conditions_met"] = not found.unmet
    result["conditions_unmet"] = list(found.unmet)
    result["epsilon_within_conditions"] = found.within_conditions
    return found.unmet


def _stop_where_unmet(unmet: tuple[str, ...]) -> None:
    if unmet:
        fail(f"no guarantee: Lemma 3.7 does not hold here ({'; '.join(unmet)}); use accountant pld", EXIT_BAD_NEWS)


def _trajectory(event: Event, delta: float, every: int) -> list[dict[str, Any]]:
    from parley.privacy.rdp_accountant import RdpAccountant

    counts = [*range(every, event.count, every), event.count]
    progress(f"reading epsilon after {len(counts)} numbers of rounds")
    rdp = RdpAccountant()
    by_loss, by_rdp = (trajectory(chosen, event, delta, counts) for chosen in (accountant("pld"), rdp))
    rows = []
    for count, loss, renyi in zip(counts, by_loss, by_rdp, strict=True):
        orders, values = rdp.curve(event.first(count))
        curve = [[order, value] for order, value in zip(orders, values, strict=True) if order in (2, 4, 8, 16, 32, 64)]
        rows.append({"rounds": count, "pld": loss.epsilon, "rdp": renyi.epsilon, "rdp_curve": curve})
    return rows


def _finite(value: float, delta: float) -> float:
    if not math.isfinite(value):
        fail(f"no finite epsilon exists at delta {delta:g}: raise delta, or the cap of poisson batches", EXIT_BAD_NEWS)
    return value
