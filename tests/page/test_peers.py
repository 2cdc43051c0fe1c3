"""Whether the others can be reached, asked of real servers."""

from parley.page.folder import Folder
from parley.page.peers import ask
from parley.page.process import page_node
from tests.support.party_pages import Visitor
from tests.support.stage import NORTH, Stage


def test_each_peer_is_asked_and_one_that_is_gone_is_named(stage: Stage, visitor: Visitor) -> None:
    found = ask(Folder(page_node(stage.node)))
    assert {name: tone for name, (_, tone) in found.items()} == {"lead": "good", "north": "good", "south": "good"}
    stage.servers[NORTH].stop(0).wait()
    csrf = visitor.client.get("/").text.split('name="csrf" value="')[1].split('"')[0]
    assert visitor.client.post("/peers", data={"csrf": csrf}).status_code == 303
    page = visitor.client.get("/").text
    assert page.count(">reached<") == 2
    assert "not reached" in page
    assert "start the node there" in page
