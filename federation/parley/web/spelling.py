"""Figures as pages and the command line spell them, and the points of a curve: of the standard library alone, for
`parley watch` runs where no page is served.
"""

from collections.abc import Sequence

MOST_POINTS = 360
MINUTE, HOUR, DAY = 60, 3600, 86400
Points = tuple[tuple[float, float], ...]


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


def number(value: float) -> str:
    """A figure as an axis has it."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else plain(f"{value:.3g}")


def plain(spelled: str) -> str:
    """1e−5 and not 1e-05, with a minus as wide as the digits."""
    return spelled.replace("e-0", "e-").replace("e+0", "e").replace("-", "−")


def axis_end(rounds: int) -> float:
    """Where an axis of rounds ends, so that its quarters are whole rounds."""
    return float(max(4, -(-rounds // 4) * 4)) if rounds < 100 else float(rounds)


def thin(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> Points:
    """At most so many points, the lowest and the highest of every stretch among them: no peak is lost."""
    count = len(points)
    if count <= most:
        return tuple(points)
    buckets = max(1, (most - 2) // 2)
    kept: list[tuple[float, float]] = [points[0]]
    inner = count - 2
    for bucket in range(buckets):
        start, end = 1 + bucket * inner // buckets, 1 + (bucket + 1) * inner // buckets
        low = min(range(start, end), key=lambda place: points[place][1])
        high = max(range(start, end), key=lambda place: points[place][1])
        kept += [points[place] for place in sorted({low, high})]
    kept.append(points[-1])
    return tuple(kept)
