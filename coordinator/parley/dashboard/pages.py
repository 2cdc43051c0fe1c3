"""Templates, the filters that spell figures, and the one place where a view becomes a page: after `allowed.check`."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from parley.dashboard import charts
from parley.dashboard.allowed import check
from parley.dashboard.history import PHASES
from parley.dashboard.views import LogLine, Page, RoundTimes
from parley.web.pages import environment

HERE = Path(__file__).parent
SITE = {
    "role": "coordinator",
    "home": "All runs",
    "foot": "This page shows only public facts and noised results; the coordinator has nothing else.",
    "token_at": "NODE/state/dashboard.token",
    "link_command": "parley dashboard NODE --link",
}
watchers: list[Callable[[str, Any], None]] = []
"""Who sees every view that is rendered: the test that walks the data behind every element."""


def timeline(rounds: tuple[RoundTimes, ...]) -> Markup:
    return charts.timeline(rounds, [key for key, _ in PHASES])


_templates = environment(
    HERE / "templates", SITE, {"line_chart": charts.line_chart, "strip": charts.strip, "timeline": timeline}
)


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
