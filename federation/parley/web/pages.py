"""Templates that all sites share, and the filters that spell figures: an environment for each role's own pages.

A role gives what differs as globals: what its node is called, and what stands under every page.
"""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from parley.web.assets import asset
from parley.web.spelling import plain, seconds, size

SHARED = Path(__file__).parent / "templates"
NEEDED = ("role", "home", "foot", "token_at", "link_command")
"""What every site has to say of itself: the shared templates use it."""


def figure(value: float | None, digits: int = 3) -> str:
    """A figure; a dash where there is none."""
    return "–" if value is None else plain(f"{value:.{digits}g}")


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


def bar(value: float, limit: float, style: str = "main") -> Markup:
    """A quantity against its limit, as a thin bar."""
    share = 0.0 if limit <= 0 else max(0.0, min(1.0, value / limit))
    return Markup(
        f'<svg class="bar {escape(style)}" aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">'
        f'<rect class="rest" width="100" height="4"/><rect class="done" width="{100 * share:.2f}" height="4"/></svg>'
    )


def environment(templates: Path, site: Mapping[str, str], filters: Mapping[str, Any]) -> Environment:
    """For the templates of one role, which may extend and import the shared ones."""
    made = Environment(
        loader=FileSystemLoader([templates, SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        seconds=seconds, size=size, figure=figure, whole=whole, counted=counted, moment=moment, digest=digest
    )
    made.filters.update(filters)
    made.globals.update(asset=asset, bar=bar, **{name: site[name] for name in NEEDED})
    return made
