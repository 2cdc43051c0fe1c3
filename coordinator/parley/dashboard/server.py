"""The dashboard's application over a coordinator's folder, and how it is served (parley.web.listener)."""

from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette

from parley.coordinator.store import RunStore
from parley.dashboard.accounts import Accounts
from parley.dashboard.app import Wiring, application
from parley.dashboard.loglines import LogFile
from parley.dashboard.servers import Operator, Servers, Status
from parley.web import listener
from parley.web.access import Sessions, token_in
from parley.web.guard import LOOPBACK
from parley.web.listener import Settings, Site


@dataclass(frozen=True)
class Place:
    """What a dashboard reads: a coordinator's folder."""

    node: str
    federation: str
    state: Path
    ledger: Path
    trail: Path
    models: Path
    status: Status
    operator: Operator


def assemble(settings: Settings, place: Place, port: int) -> Starlette:
    """The application over a node's state folder."""
    wiring = Wiring(
        node=place.node,
        federation=place.federation,
        store=RunStore(place.state / "runs.sqlite", read_only=True),
        models=place.models,
        log=LogFile(place.state),
        accounts=Accounts(place.ledger, place.trail),
        servers=Servers(place.status, place.operator),
        sessions=Sessions(token_in(place.state)),
        hosts=LOOPBACK,
        port=port,
        secure=settings.secure,
        open_metrics=settings.open_metrics and settings.loopback,
    )
    made = application(wiring)
    made.state.wiring = wiring
    return made


async def serve(settings: Settings, place: Place, until_input_ends: bool = False) -> None:
    """Until a signal; prints one line of JSON when it serves."""

    def build(port: int) -> Site:
        app = assemble(settings, place, port)
        wiring: Wiring = app.state.wiring

        async def close() -> None:
            await wiring.accounts.close()
            wiring.store.close()

        return Site(place.node, app, app.state.pages.warm, close)

    await listener.serve(settings, build, until_input_ends)
