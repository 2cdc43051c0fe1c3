"""`parley dashboard`: the coordinator's pages.

parley dashboard NODE               # serve them until Ctrl-C; `parley coordinator run` does it if node.toml says so
parley dashboard NODE --link        # an address that signs in, for whoever may read NODE/state
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import become, fail

Folder = Annotated[Path, typer.Argument(help="The coordinator's folder, with node.toml.", metavar="NODE")]


def dashboard(
    node: Folder,
    listen: Annotated[str, typer.Option(help="Another address than node.toml's, as host:port.")] = "",
    link: Annotated[bool, typer.Option("--link", help="Print an address that signs in, and serve nothing.")] = False,
    at: Annotated[str, typer.Option(help="With --link: host:port by which the browser reaches it.")] = "",
) -> None:
    """Serve the coordinator's dashboard on this machine. Prints one line of JSON when it is ready.

    Next: parley dashboard NODE --link, for an address that signs in.

    Example: parley dashboard lead
    """
    from parley.coordinator.operator_client import coordinator_node
    from parley.dashboard import process as wiring
    from parley.node.node_file import Address
    from parley.web.access import token_in

    found = coordinator_node(node)

    def parsed(option: str, text: str) -> Address | None:
        try:
            return Address.parse(text) if text else None
        except ValueError:
            fail(f'{option} is {text!r}: give "host:port"')

    settings = wiring.settings_of(found, parsed("--listen", listen))
    if at and not link:
        fail("--at is for --link: --listen says where to serve")
    if link:
        print(settings.link(token_in(found.state), parsed("--at", at)))
        return
    become("parley.dashboard", str(node), *(["--listen", listen] if listen else []))
