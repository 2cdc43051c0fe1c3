"""Charts as SVG markup, drawn here and not in the browser: no library, no inline style, no text that scales away.

The SVG stretches (`preserveAspectRatio="none"`, strokes that do not scale); ticks are evenly spaced, so that labels are
ordinary text in a flex row beside it. Colours and strokes are classes of the style sheet.
"""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from parley.dashboard.views import Chart, RoundTimes
from parley.web.spelling import number

WIDTH, HEIGHT = 600.0, 200.0
TICKS = 5
LEAST_COLUMNS = 12


def nice_range(low: float, high: float) -> tuple[float, float]:
    """Bounds whose quarters are round numbers: every tick of the axis reads well."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    step = _nice((high - low) / (TICKS - 1))
    start = math.floor(low / step + 1e-9) * step
    while start + step * (TICKS - 1) < high * (1 - 1e-12):
        step = _nice(step * 1.05)
        start = math.floor(low / step + 1e-9) * step
    return start, start + step * (TICKS - 1)


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if factor * power >= step * (1 - 1e-9):
            return factor * power
    return 10 * power


def line_chart(chart: Chart) -> Markup:
    """Curves over rounds with axes; the figures travel in `data-series` for the reader under the pointer."""
    values = [y for line in chart.lines for _, y in line.points]
    if not values:
        return Markup('<p class="quiet">Nothing yet.</p>')
    ends = (min(values), max(values))
    near_zero = ends[0] >= 0 and (ends[0] < 0.6 * ends[1] or ends[0] == ends[1])
    low, high = nice_range(0.0 if near_zero else ends[0], ends[1])
    ticks = [number(high - (high - low) * place / (TICKS - 1)) for place in range(TICKS)]
    span = (chart.last - chart.first) or 1.0

    def place(point: tuple[float, float]) -> str:
        x = (point[0] - chart.first) / span * WIDTH
        y = HEIGHT - (point[1] - low) / (high - low) * HEIGHT
        return f"{x:.1f} {y:.1f}"

    parts = [f'<path class="grid" d="M0 {HEIGHT * k / (len(ticks) - 1):.1f}H{WIDTH:.0f}"/>' for k in range(len(ticks))]
    if chart.now is not None:
        parts.append(f'<path class="now" d="M{(chart.now - chart.first) / span * WIDTH:.1f} 0V{HEIGHT:.0f}"/>')
    for line in chart.lines:
        if len(line.points) == 1:
            at = place(line.points[0])
            parts.append(f'<path class="dot {escape(line.style)}" d="M{at}l0.01 0"/>')
        elif line.points:
            parts.append(f'<path class="curve {escape(line.style)}" d="M{"L".join(map(place, line.points))}"/>')
    across = [number(round(chart.first + span * k / 4)) for k in range(5)] if span >= 4 else _whole(chart)
    series = ";".join(
        f"{line.name}|" + " ".join(f"{x:g},{y:.5g}" for x, y in line.points) for line in chart.lines if line.points
    )
    body = "".join(parts)
    label = escape(f"{chart.title}. {chart.about} {chart.value}")
    return Markup(
        f'<div class="plot"><div class="ticks" aria-hidden="true">{"".join(f"<span>{t}</span>" for t in ticks)}</div>'
        f'<svg class="area" role="img" aria-label="{label}" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" '
        f'preserveAspectRatio="none" data-first="{chart.first:g}" data-last="{chart.last:g}" '
        f'data-series="{escape(series)}">{body}<path class="cross" d=""/></svg>'
        f'<div class="across" aria-hidden="true">{"".join(f"<span>{x}</span>" for x in across)}</div></div>'
    )


def _whole(chart: Chart) -> list[str]:
    return [number(x) for x in range(int(chart.first), int(chart.last) + 1)] or ["0"]


def timeline(rounds: Sequence[RoundTimes], keys: Sequence[str]) -> Markup:
    """One column per round, its phases stacked in the order of `keys`."""
    if not rounds:
        return Markup('<p class="quiet">No round has ended yet.</p>')
    _, high = nice_range(0.0, max(each.seconds for each in rounds) or 1.0)
    slots = max(len(rounds), LEAST_COLUMNS)
    wide, before = WIDTH / slots, slots - len(rounds)
    parts = [f'<path class="grid" d="M0 {HEIGHT * k / (TICKS - 1):.1f}H{WIDTH:.0f}"/>' for k in range(TICKS)]
    for place, each in enumerate(rounds):
        base, x = HEIGHT, (before + place + 0.1) * wide
        missing = f"; missing {', '.join(each.missing)}" if each.missing else ""
        title = escape(f"round {each.round + 1}: {each.seconds:.3g} s, {each.present} present{missing}")
        parts.append(f"<g><title>{title}</title>")
        for key, seconds in zip(keys, each.phases, strict=True):
            tall = seconds / high * HEIGHT
            base -= tall
            where = f'x="{x:.1f}" y="{base:.2f}" width="{0.8 * wide:.1f}" height="{tall:.2f}"'
            parts.append(f'<rect class="phase {escape(key)}" {where}/>')
        if each.missing:
            parts.append(f'<rect class="gap" x="{x:.1f}" y="{HEIGHT - 3:.1f}" width="{0.8 * wide:.1f}" height="3"/>')
        parts.append("</g>")
    ticks = [number(high - high * k / (TICKS - 1)) for k in range(TICKS)]
    label = f"Seconds of the last {len(rounds)} round{'s' * (len(rounds) > 1)} by phase"
    first, last = number(rounds[0].round + 1), number(rounds[-1].round + 1)
    shown = f"rounds {first} to {last}" if len(rounds) > 1 else f"round {last}"
    ends = f"<span></span><span>{shown}</span>" if before else f"<span>{first}</span><span>{last}</span>"
    return Markup(
        f'<div class="plot"><div class="ticks" aria-hidden="true">{"".join(f"<span>{t}</span>" for t in ticks)}</div>'
        f'<svg class="area" role="img" aria-label="{label}" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg><div class="across" aria-hidden="true">{ends}</div></div>'
    )


def strip(shares: Sequence[float]) -> Markup:
    """Presence over the history, dark where a party was there."""
    if not shares:
        return Markup("")
    count = len(shares)
    wide = 0.86 if count > 20 else 0.96
    cells = "".join(
        f'<rect class="{_presence(share)}" x="{place}" y="0" width="{wide}" height="10"/>'
        for place, share in enumerate(shares)
    )
    return Markup(
        f'<svg class="strip" aria-hidden="true" viewBox="0 0 {count} 10" preserveAspectRatio="none">{cells}</svg>'
    )


def _presence(share: float) -> str:
    return "full" if share >= 0.999 else ("most" if share >= 0.5 else ("some" if share > 0 else "none"))
