"""Templates."""

import pytest

from tests.support.browser import Make


@pytest.mark.parametrize("path", ["/", "/runs/heart-1", "/runs/heart-1/privacy", "/runs/heart-1/stop", "/login"])
def test_no_page_has_an_inline_script_or_style_or_an_address_elsewhere(browser: Make, path: str) -> None:
    made = browser()
    page = (made if path == "/login" else made.login()).client.get(path).text
    assert "<style" not in page
    assert " style=" not in page
    assert " on" not in {part[:3] for part in page.split('"')[2::2]}
    assert page.count("<script") == page.count('<script src="/static/')
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
