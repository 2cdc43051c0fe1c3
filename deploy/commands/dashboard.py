"""`parley dashboard`: the coordinator's pages.

parley dashboard NODE               # serve them until Ctrl-C; `parley coordinator run` does it if node.toml says so
parley dashboard NODE --link        # an address that signs in, for whoever may read NODE/state
"""

from pathlib import Path
from typing import Annotated

import typer

from deploy.console import EXIT_USAGE, fail

Folder = Annotated[Path, typer.Argument(help="The coordinator's folder, with node.toml.", metavar="NODE")]


def dashboard(
    node: Folder,
    listen: Annotated[str, typer.Option(help="Another address than node.toml's, as host:port.")] = "",
    link: Annotated[bool, typer.Option("--link", help="Print an address that signs in, and serve nothing.")] = False,
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serve the dashboard of a coordinator on this machine. Prints one line of JSON when it is ready."""
    from coordinator.dashboard.access import token_in
    from coordinator.dashboard.server import main
    from deploy import dashboard as wiring
    from deploy.node_file import Address
    from deploy.running import coordinator_node

    found = coordinator_node(node)
    try:
        address = Address.parse(listen) if listen else None
    except ValueError:
        fail(f'--listen is {listen!r}: give "host:port"', EXIT_USAGE)
    settings = wiring.settings_of(found, address)
    if link:
        print(wiring.link(settings, token_in(found.state)))
        return
    main(settings, wiring.place_of(found), until_input_ends=beside)
