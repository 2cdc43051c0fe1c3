"""The templates, and the one place where a view becomes a page."""

import datetime as dt
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from parley.page.views import Budget, Page
from parley.web.pages import counted, environment

HERE = Path(__file__).parent
SITE = {
    "role": "party",
    "home": "All runs",
    "foot": "This page is for this institution alone and is served on this machine only.",
    "token_at": "NODE/state/page.token",
    "link_command": "parley page NODE --link",
}


def when(text: str) -> Markup:
    """A time of a file, as people read it."""
    try:
        at = dt.datetime.fromisoformat(text).astimezone(dt.UTC)
    except ValueError:
        return escape(text) if text else Markup("–")
    return Markup(f'<time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{at:%Y-%m-%d %H:%M} UTC</time>')


def spent_picture(budget: Budget) -> Markup:
    """What each run has taken of ε, one after the other, and what the run that is asked for would take of the rest."""
    whole = max(budget.epsilon_cap, budget.epsilon + budget.asked) or 1.0
    parts, at = [], 0.0
    styles = ("done", "done other")
    pieces = [(each.epsilon, styles[place % 2], each.name) for place, each in enumerate(budget.runs)]
    # Under the rule rdp runs do not add up to what is spent: the whole is drawn as one.
    if abs(sum(size for size, _, _ in pieces) - budget.epsilon) > 1e-6 * whole:
        pieces = [(budget.epsilon, "done", "all runs")]
    for size, style, name in [*pieces, (budget.asked, "asked", "this run")]:
        if size > 0:
            where = f'x="{1000 * at / whole:.2f}" width="{1000 * size / whole:.2f}" height="12"'
            title = f"<title>{escape(name)}: ε {size:.4g}</title>"
            parts.append(f'<g>{title}<rect class="{style}" {where}/></g>')
            at += size
    cap = 1000 * budget.epsilon_cap / whole
    asked = f", this run would take {budget.asked:.4g}" if budget.asked else ""
    label = f"ε: {budget.epsilon:.4g} of {budget.epsilon_cap:g} spent by {counted(len(budget.runs), 'run')}{asked}"
    return Markup(
        f'<svg class="stack" role="img" aria-label="{escape(label)}" viewBox="0 0 1000 12" preserveAspectRatio="none">'
        f'<rect class="rest" width="{cap:.2f}" height="12"/>{"".join(parts)}</svg>'
    )


_templates = environment(HERE / "templates", SITE, {"when": when, "spent_picture": spent_picture})


def render(template: str, page: Page, view: Any = None, **words: str) -> str:
    """A page; `words` are what was wrong with the last form."""
    return _templates.get_template(template).render(page=page, view=view, **words)
