"""What every site's templates are given."""

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from parley.web.pages import NEEDED, bar, counted, environment, figure, moment

SITE = dict.fromkeys(NEEDED, "word")


def test_a_template_that_names_what_nobody_gives_fails_and_what_a_stranger_wrote_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("{{ value }}")
    made = environment(tmp_path, SITE, {})
    assert made.get_template("a.html").render(value="<b>") == "&lt;b&gt;"
    with pytest.raises(UndefinedError):
        made.get_template("a.html").render()
    assert "Sign in" in made.get_template("login.html").render(
        page={"title": "t", "federation": "f", "node": "n", "csrf": ""}, problem=""
    )


def test_a_site_that_does_not_say_who_it_is_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        environment(tmp_path, {}, {})


def test_figures_are_spelled_for_people() -> None:
    assert (figure(None), figure(1e-5), counted(1, "round"), counted(2000, "round")) == (
        "–",
        "1e−5",
        "1 round",
        "2,000 rounds",
    )
    assert "1970-01-01 00:00 UTC" in moment(0.0)
    assert 'width="50.00"' in bar(1, 2)
    assert 'width="100.00"' in bar(3, 2)
