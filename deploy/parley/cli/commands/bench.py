"""`parley bench`: measured on this machine, in this run, beside a baseline."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from parley.cli.commands.bench_gradients import gradients
from parley.cli.console import emit_json, fail, progress
from parley.cli.options import Audit, Cover, Json, Precision, Security, Wire

app = typer.Typer(help="Measure speed and size on this machine, side by side with a baseline.", no_args_is_help=True)
app.command()(gradients)


@app.callback()
def _group() -> None:
    """Measure speed and size on this machine, side by side with a baseline."""


@app.command()
def noise(
    dimension: Annotated[int, typer.Option(min=1, help="Gaussians at a time: a model's parameters.")] = 26_000,
    cover: Annotated[Cover, typer.Option(help="strips: close to the region; rectangle: textbook.")] = Cover.strips,
    precision: Annotated[Precision, typer.Option(help="Tables: `parley noise certificate`.")] = Precision.standard,
    channel: Annotated[Wire, typer.Option(help="Between the two servers, TLS in both cases.")] = Wire.grpc,
    seconds: Annotated[float, typer.Option(min=0, help="Repeat for this long and report the sustained rate.")] = 0.0,
    dump: Annotated[Path | None, typer.Option(help="Write BOTH servers' shares to FILE.npz: tests only.")] = None,
    baseline: Annotated[bool, typer.Option(help="Measure the baseline too.")] = True,
    security: Annotated[
        Security,
        typer.Option(help="covert and malicious are measured beside semi-honest, all three taking turns."),
    ] = Security.semi_honest,
    audit: Annotated[
        Audit | None, typer.Option(help="Under covert: the share of all batches that each server audits; 1/8.")
    ] = None,
    lanes: Annotated[
        int | None, typer.Option(min=1024, max=16384, help="Of a batch: 16,384 under covert, otherwise 8,192.")
    ] = None,
    own: Annotated[
        float | None, typer.Option(help="Noise of each server's own; 0.5 if it is not given, 0 with --dump.")
    ] = None,
    round_trip: Annotated[
        str | None, typer.Option(help="Over a line of such a length, as 50ms, beside loopback and one worker.")
    ] = None,
    workers: Annotated[
        str, typer.Option(help="With --round-trip: batches in the making at once, 1 to 16 or auto.")
    ] = "auto",
    json_output: Json = False,
) -> None:  # fmt: skip
    """Measure Gaussian noise made by two processes on this machine, from empty pool to shares.

    Example: parley bench noise --dimension 62000 --seconds 60

    Example: parley bench noise --round-trip 50ms --workers 8
    """
    from parley.bench import noise_bench
    from parley.mpc.evidence import MOST_LANES
    from parley.mpc.parts import parts_of, usual_own
    from parley.mpc.sampler import LANES

    usual = 0.0 if dump and security is Security.semi_honest else usual_own(security)
    parts = parts_of(security, own if own is not None else usual, audit)
    lanes = lanes or (MOST_LANES if security is Security.covert else LANES)
    if dump is not None and not dump.parent.is_dir():
        fail(f"--dump: folder {dump.parent} does not exist")
    if round_trip is not None:
        _lines(cover, precision, parts, lanes, round_trip, workers, seconds, json_output)
        return
    if workers != "auto":
        fail("--workers goes with --round-trip: parley bench noise --round-trip 50ms --workers 8")
    progress(f"two servers, {channel}, TLS, {cover}, {precision}: {dimension:,} Gaussians at a time")
    result = noise_bench.noise(dimension, cover, precision, channel, seconds, dump, baseline, parts, lanes)
    if json_output:
        emit_json(result)
        return
    table = Table(title="Joint Gaussian noise", show_header=False)
    rows = {
        "Gaussians at a time": f"{dimension:,}",
        "median time": f"{result['seconds'] * 1e3:,.1f} ms",
        "sustained": f"{result['gaussians_per_second']:,.0f} Gaussians/s over {result['elapsed_seconds']:.1f} s",
        "sent by each server": f"{result['bytes_per_gaussian_per_server']:,.0f} bytes per Gaussian",
        "exchanges per repetition": f"{result['exchanges']:g}",
        "acceptance": "nothing joint" if result["acceptance"] is None else f"{result['acceptance']:.4f}",
        "each server's own": f"{result['own']:g} ({result['security']})",
        "base transfers": f"{result['base_ot_seconds'] * 1e3:,.0f} ms, once per session",
        "from two fresh processes": f"{result['cold_seconds']:.2f} s",
        "CPU per Gaussian and server": f"{result['cpu_us_per_gaussian_per_server']:.1f} µs",
        "this core's AES-ECB": f"{result['aes_gb_s']:.1f} GB/s",
    }
    if other := result.get("baseline"):
        rows["baseline, same run"] = (
            f"{other['gaussians_per_second']:,.0f} Gaussians/s, "
            f"{other['bytes_per_gaussian_per_server']:,.0f} bytes ({other['what']})"
        )
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
    if turns := result.get("turns"):
        _show_turns(turns)


def _lines(
    cover: str, precision: str, parts: Any, lanes: int, round_trip: str, workers: str, seconds: float, as_json: bool
) -> None:
    """The pool as an aggregator has it, over a line of that length."""
    from parley.bench import noise_lines

    if not parts.joint:
        fail("--round-trip: under malicious nothing is sampled together, so no line is in use")
    far, count = noise_lines.parse_round_trip(round_trip), noise_lines.parse_workers(workers)
    progress(f"two servers, gRPC, TLS, {precision}, {parts.security}, {lanes:,} lanes a batch: four ways in turns")
    result = noise_lines.lines(cover, precision, parts, lanes, far, count, seconds)
    if as_json:
        emit_json(result)
        return
    table = Table(title=f"Joint Gaussian noise, round trip {round_trip}", box=None, pad_edge=False)
    for heading in ("", "workers", "Gaussians/s", "from", "to", "processor"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, way in result["ways"].items():
        table.add_row(
            name.replace("_", ", ", 1).replace("_", " "), f"{way['workers']}", f"{way['gaussians_per_second']:,.0f}",
            f"{way['slowest']:,.0f}", f"{way['fastest']:,.0f}", f"{way['cpu_us_per_gaussian_per_server']:.1f} µs",
        )  # fmt: skip
    Console().print(table)
    Console().print(
        f"over the line: {result['of_loopback']:.0%} of loopback's best, and {result['over_one_worker']:.2f} times one "
        f"worker (medians of {result['rounds']} turns each); this core's AES-ECB: {result['aes_gb_s']:.1f} GB/s"
    )


def _show_turns(turns: dict[str, Any]) -> None:
    """The ways of making noise side by side."""
    table = Table(
        title=f"In turns, {turns['rounds']} batches each; for each Gaussian and server", box=None, pad_edge=False
    )
    for heading in ("", "at a time", "processor", "bytes", "exchanges a batch", "audits"):
        table.add_column(heading, justify="left" if not heading else "right")
    for way in turns["ways"]:
        name = way["security"] + (f", 1 in {way['audit'][2:]} audited" if way["audit"] else "")
        table.add_row(
            name, f"{way['lanes']:,}", f"{way['cpu_us_per_gaussian_per_server']:.2f} µs",
            f"{way['bytes_per_gaussian_per_server']:,.0f}", f"{way['exchanges_per_batch']:.1f}", f"{way['audits']}",
        )  # fmt: skip
    Console().print(table)
    same, usual = turns["covert_over_semi_honest"], turns["covert_over_usual_batches"]
    Console().print(
        f"covert takes {same['cpu']:.2f} ± {same['cpu_error']:.2f} times the processor of semi-honest in such batches "
        f"and {same['bytes']:.2f} times its bytes; {usual['cpu']:.2f} ± {usual['cpu_error']:.2f} and "
        f"{usual['bytes']:.2f} times those of its usual ones"
    )


@app.command()
def aggregate(
    parties: Annotated[int, typer.Option(min=1, help="Institutions that contribute.")] = 5,
    dimension: Annotated[int, typer.Option(min=1, help="Length of their vectors.")] = 123,
    channel: Annotated[Wire, typer.Option(help="Between the two servers, TLS in both cases.")] = Wire.grpc,
    security: Annotated[Security, typer.Option(help="The noise that is added; each server's own is as usual.")] = (
        Security.semi_honest
    ),
    json_output: Json = False,
) -> None:
    """Measure one secure aggregation with its noise, everything included.

    The core paper's table 4 has 18.04 s for 5 parties and 123 numbers, and 21.48 s with dual execution.

    Example: parley bench aggregate --parties 5 --dimension 123
    """
    from parley.bench import noise_bench
    from parley.mpc.parts import parts_of, usual_own

    progress(f"{parties} parties, {dimension:,} numbers each, two fresh servers")
    parts = parts_of(security, usual_own(security))
    result = noise_bench.aggregate(parties, dimension, channel, parts)
    if json_output:
        emit_json(result)
        return
    Console().print(
        f"{parties} parties, {dimension:,} numbers, {security}: online {result['online_seconds'] * 1e3:.1f} ms, "
        f"from nothing {result['total_seconds']:.2f} s, {result['bytes_per_server']:,} bytes per server, and "
        f"{result['noise_bytes_per_server']:,} for the noise that it draws on"
    )


@app.command()
def train(
    parties: Annotated[int, typer.Option(min=2, help="Institutions, a process each.")] = 10,
    dimension: Annotated[int, typer.Option(min=20, help="Parameters of a linear model on made-up records.")] = 123,
    rounds: Annotated[int, typer.Option(min=10, help="Rounds of each run.")] = 200,
    plain: Annotated[
        bool, typer.Option(help="Also without protection: one server, clear sums, no noise, the same transport.")
    ] = True,
    json_output: Json = False,
) -> None:
    """Measure a whole federation of processes, with TLS and joint noise, beside one without protection.

    It shows seconds for each round, CPU, bytes and memory.

    Example: parley bench train --parties 10 --rounds 200
    """
    from parley.bench.train_bench import bench_train

    result = bench_train(parties, dimension, rounds, plain)
    if json_output:
        emit_json(result)
        return
    table = Table(box=None, pad_edge=False)
    kinds = [kind for kind in ("secure", "plain") if kind in result]
    for heading in ("", *kinds):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, show in TRAIN_ROWS.items():
        table.add_row(name, *(show(result[kind]) for kind in kinds))
    Console().print(table)
    if plain:
        Console().print(
            f"secure takes {result['ratio']:.2f} times the plain round, {result['sustained_ratio']:.2f} sustained"
        )


TRAIN_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "median round": lambda row: f"{row['median_seconds'] * 1e3:.1f} ms",
    "sustained, from an empty pool": lambda row: (
        f"{row['sustained_seconds'] * 1e3:.1f} ms"
        if "sustained_seconds" in row
        else f"{row['mean_seconds'] * 1e3:.1f} ms"
    ),
    "waiting for contributions": lambda row: f"{row['phases']['waited'] * 1e3:.1f} ms",
    "agreeing, adding noise": lambda row: f"{(row['phases']['agreed'] + row['phases']['noised']) * 1e3:.1f} ms",
    "stepping the model": lambda row: f"{row['phases']['stepped'] * 1e3:.1f} ms",
    "CPU of all aggregators": lambda row: f"{row['cpu_seconds']['aggregator']:.2f} s",
    "CPU of all parties": lambda row: f"{row['cpu_seconds']['party']:.2f} s",
    "CPU of the coordinator": lambda row: f"{row['cpu_seconds']['coordinator']:.2f} s",
    "up per party and round": lambda row: f"{row['bytes_up_per_party']:,.0f} bytes",
    "peak memory of a party": lambda row: f"{row['peak_memory_mb']['party']:.0f} MB",
    "peak memory of an aggregator": lambda row: f"{row['peak_memory_mb']['aggregator']:.0f} MB",
    "start to first round": lambda row: f"{row['start_to_first_round_seconds']:.1f} s",
}
