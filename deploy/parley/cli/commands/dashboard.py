"""`parley dashboard`: the coordinator's pages.

parley dashboard NODE               # serve them until Ctrl-C; `parley coordinator run` does it if node.toml says so
parley dashboard NODE --link        # an address that signs in, for whoever may read NODE/state
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import EXIT_USAGE, fail

Folder = Annotated[Path, typer.Argument(help="The coordinator's folder, with node.toml.", metavar="NODE")]


def dashboard(
    node: Folder,
    listen: Annotated[str, typer.Option(help="Another address than node.toml's, as host:port.")] = "",
    link: Annotated[bool, typer.Option("--link", help="Print an address that signs in, and serve nothing.")] = False,
    at: Annotated[str, typer.Option(help="With --link: host:port by which the browser reaches it.")] = "",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serve the coordinator's dashboard on this machine. Prints one line of JSON when it is ready.

    Next: parley dashboard NODE --link, for an address that signs in.

    Example: parley dashboard lead
    """
    from parley.coordinator.operator_client import coordinator_node
    from parley.dashboard import launcher as wiring
    from parley.dashboard.access import token_in
    from parley.dashboard.server import main
    from parley.node.node_file import Address

    found = coordinator_node(node)

    def parsed(option: str, text: str) -> Address | None:
        try:
            return Address.parse(text) if text else None
        except ValueError:
            fail(f'{option} is {text!r}: give "host:port"', EXIT_USAGE)

    settings = wiring.settings_of(found, parsed("--listen", listen))
    if at and not link:
        fail("--at is for --link: --listen says where to serve", EXIT_USAGE)
    if link:
        print(wiring.link(settings, token_in(found.state), parsed("--at", at)))
        return
    main(settings, wiring.place_of(found), until_input_ends=beside)
