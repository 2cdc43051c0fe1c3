"""Templates, the filters that spell figures, and the one place where a view becomes a page: after `allowed.check`."""

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from parley.dashboard import charts
from parley.dashboard.allowed import check
from parley.dashboard.history import PHASES
from parley.dashboard.views import LogLine, Page, RoundTimes
from parley.web.assets import asset

HERE = Path(__file__).parent
MINUTE, HOUR, DAY = 60, 3600, 86400
watchers: list[Callable[[str, Any], None]] = []
"""Who sees every view that is rendered: the test that walks the data behind every element."""


def seconds(value: float | None) -> str:
    """A duration as people say it."""
    if value is None:
        return "–"
    if value < 0.0005:
        return "0 s"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < MINUTE:
        return f"{value:.1f} s"
    if value < HOUR:
        return f"{int(value // MINUTE)} min {int(value % MINUTE)} s"
    if value < DAY:
        return f"{int(value // HOUR)} h {int(value % HOUR // MINUTE)} min"
    return f"{int(value // DAY)} d {int(value % DAY // HOUR)} h"


def size(value: float | None) -> str:
    """Bytes with a unit."""
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def figure(value: float | None, digits: int = 3) -> str:
    """A figure; a dash where there is none."""
    return "–" if value is None else charts.plain(f"{value:.{digits}g}")


def whole(value: int) -> str:
    return f"{value:,}"


def counted(value: int, one: str) -> str:
    """A number of things: 1 round, 2 rounds."""
    return f"{value:,} {one}" if value == 1 else f"{value:,} {one}s"


def moment(value: float | None) -> Markup:
    """A time in UTC, for people and for machines."""
    if value is None:
        return Markup("–")
    when = dt.datetime.fromtimestamp(value, dt.UTC)
    return Markup(f'<time datetime="{when:%Y-%m-%dT%H:%M:%SZ}">{when:%Y-%m-%d %H:%M} UTC</time>')


def digest(value: str) -> Markup:
    """Hexadecimal in groups of four, which a line may break between."""
    return Markup("<wbr>").join(escape(value[start : start + 4]) for start in range(0, len(value), 4))


def timeline(rounds: tuple[RoundTimes, ...]) -> Markup:
    return charts.timeline(rounds, [key for key, _ in PHASES])


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        seconds=seconds, size=size, figure=figure, whole=whole, counted=counted, moment=moment, digest=digest,
        line_chart=charts.line_chart, strip=charts.strip, timeline=timeline,
    )  # fmt: skip
    made.globals.update(asset=asset, bar=charts.bar)
    return made


_templates = _environment()


def render(template: str, page: Page, view: Any = None, **words: str) -> str:
    """A page from views alone; `words` are the operator's own (a filter, a problem)."""
    for each in (page, view, *words.values()):
        check(each)
    for watcher in watchers:
        watcher(template, view)
    return _templates.get_template(template).render(page=page, view=view, **words)


def render_line(line: LogLine) -> str:
    """One line of the log, as the page has it and as the stream sends it."""
    check(line)
    for watcher in watchers:
        watcher("line", line)
    return str(_line_module().row(line)).strip()


@lru_cache(maxsize=1)
def _line_module() -> Any:
    return _templates.get_template("lines.html").make_module({"page": None, "view": None})
