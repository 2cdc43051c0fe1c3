"""The pages, over a folder that a real party has filled: what they say, and that nothing is decided but what was shown."""

from tests.support.party_pages import Visitor, asked, finished, waiting
from tests.support.stage import Stage


def test_a_person_reads_what_is_asked_and_approves_it(stage: Stage, visitor: Visitor) -> None:
    finished(stage)
    made = waiting(stage)
    home = visitor.client.get("/").text
    assert "waits for you" in home
    page = visitor.page(made)
    import pathlib

    pathlib.Path("/tmp/run.html").write_text(page)
    pathlib.Path("/tmp/home.html").write_text(home)
    fields = visitor.form(page, "approve", typed=made.digest.hex()[:8])
    answer = visitor.send(made, "approve", fields)
    assert answer.status_code == 303, answer.text
    assert "Dr. Ada Osei" in visitor.page(made, "Admitted here")
