"""`parley page`: a party's own pages, on this machine only.

parley page NODE                    # serve them until Ctrl-C, on a port of the kernel's
parley page NODE --link             # beside it: an address that signs in, for whoever may read NODE/state
"""

from typing import Annotated

import typer

from parley.cli.console import become, fail
from parley.cli.options import NodeFolder


def page(
    node: NodeFolder,
    listen: Annotated[str, typer.Option(help="Loopback's host:port, such as 127.0.0.1:7490.")] = "",
    link: Annotated[
        bool, typer.Option("--link", help="Print an address that signs in at the page that runs, and serve nothing.")
    ] = False,
) -> None:
    """Serve a party's page on this machine: what is asked, what was spent, approve, refuse, withdraw.

    It prints one line of JSON when it is ready. The node need not be running. Only loopback is served.

    Next, in another terminal: parley page NODE --link

    Example: parley page hospital-a
    """
    from parley.node.node_file import Address
    from parley.page import process

    if link:
        print(process.link(node))
        return
    process.page_node(node)
    try:
        process.settings_of(Address.parse(listen) if listen else None)
    except ValueError:
        fail(f'--listen is {listen!r}: give "127.0.0.1:port"')
    become("parley.page", str(node), *(["--listen", listen] if listen else []))
