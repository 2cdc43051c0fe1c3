"""The pages: login, runs, one run, its privacy page, its events, stop and resume, metrics.

Every answer but the login, the assets and (if it is so configured) the metrics needs a session. Nothing is changed but
by POST with the session's own word.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from parley.coordinator.errors import CoordinatorError
from parley.coordinator.store import RunRow, RunStore, State
from parley.dashboard import figures
from parley.dashboard.accounts import Accounts
from parley.dashboard.downloads import Download, download, has_model
from parley.dashboard.exposition import exposition
from parley.dashboard.history import Histories, manifest_of
from parley.dashboard.loglines import LogFile
from parley.dashboard.pages import render, render_line
from parley.dashboard.servers import Servers
from parley.dashboard.views import Page, RunsView, RunView
from parley.learning.pictures import Example
from parley.web.access import Session, Sessions
from parley.web.assets import STATIC
from parley.web.door import Door
from parley.web.guard import Guard

MOST_STREAMS = 32
POLL_SECONDS = 0.5
KEEPALIVE_SECONDS = 15.0


@dataclass(frozen=True)
class Wiring:
    """What the pages read, and how they are served."""

    node: str
    federation: str
    store: RunStore
    models: Path
    """Where the coordinator writes the models of its runs."""
    log: LogFile
    accounts: Accounts
    servers: Servers
    sessions: Sessions
    hosts: tuple[str, ...]
    port: int
    secure: bool
    open_metrics: bool
    """Whether /metrics is answered without a token."""


class Pages:
    """The handlers."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring
        self._histories = Histories(wiring.store)
        self._door = Door(wiring.sessions, wiring.port, wiring.secure, self._sign_in)
        self._streams = 0
        self._stores = asyncio.Lock()

    def routes(self) -> list[Any]:
        return [
            *self._door.routes(),
            Route("/", self._door.inside(self.runs)),
            Route("/runs/{run}", self._door.inside(self.run)),
            Route("/runs/{run}/privacy", self._door.inside(self.privacy)),
            Route("/runs/{run}/model.npz", self._door.inside(self.take)),
            Route("/runs/{run}/card.html", self._door.inside(self.take)),
            Route("/runs/{run}/examples", self._door.inside(self.examples)),
            Route("/runs/{run}/examples/{round:int}/{place:int}.png", self._door.inside(self.picture)),
            Route("/runs/{run}/events", self._door.inside(self.events)),
            Route("/runs/{run}/stop", self._door.inside(self.ask_stop)),
            Route("/runs/{run}/stop", self._door.own(self.stop), methods=["POST"]),
            Route("/runs/{run}/resume", self._door.own(self.resume), methods=["POST"]),
            Route("/metrics", self.metrics),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    async def warm(self) -> None:
        await self._read(self._histories.warm)
        await self._read(self._w.log.refresh)
        self._w.accounts.books()

    # ------------------------------------------------------------ pages

    async def runs(self, request: Request, session: Session) -> Response:
        rows = await self._read(self._w.store.runs)
        heads = []
        for row in reversed(rows):
            history = await self._read(self._histories.of, row.digest)
            heads.append(figures.head(row, manifest_of(row.manifest), history))
        view = RunsView(tuple(heads), self._w.accounts.books())
        return HTMLResponse(render("runs.html", self._page("Runs", session), view))

    async def run(self, request: Request, session: Session) -> Response:
        row = await self._row(request)
        view = await self._run_view(row)
        page = self._page(row.run, session)
        if "part" in request.query_params:
            return HTMLResponse(render("live.html", page, view))
        words, level = request.query_params.get("filter", "")[:80], request.query_params.get("level", "")[:10]
        await self._read(self._w.log.refresh)
        lines = render("lines.html", page, self._w.log.view(words, level))
        return HTMLResponse(render("run.html", page, view).replace("<!--lines-->", lines))

    async def _run_view(self, row: RunRow) -> RunView:
        manifest = manifest_of(row.manifest)
        history = await self._read(self._histories.of, row.digest)
        answers = await self._read(self._w.store.answers, row.digest)
        ends = await self._read(self._w.store.ends, row.digest)
        servers, exposed = self._w.servers, figures.exposed(row, manifest, history, ends)
        return figures.run_view(
            row, manifest, history, answers, self._w.accounts.spent(manifest, exposed, row.state.resting),
            servers.pools(manifest), servers.presence(row.run), await self._read(has_model, self._w.models, row),
            await self._read(self._w.store.examples, row.digest) is not None,
        )  # fmt: skip

    async def examples(self, request: Request, session: Session) -> Response:
        """Public pictures with right and wrong answers of the newest model that was tried."""
        row = await self._row(request)
        found = await self._examples(row)
        history = await self._read(self._histories.of, row.digest)
        view = figures.examples_view(row, manifest_of(row.manifest), history, found)
        return HTMLResponse(render("examples.html", self._page(f"Examples of {row.run}", session), view))

    async def picture(self, request: Request, session: Session) -> Response:
        """One of them."""
        newest, found = await self._examples(await self._row(request))
        place = request.path_params["place"]
        if request.path_params["round"] != newest or place >= len(found):
            raise HTTPException(404, "There are newer examples: load their page again.")
        return Response(found[place].png, media_type="image/png")

    async def _examples(self, row: RunRow) -> tuple[int, list[Example]]:
        found = await self._read(self._w.store.examples, row.digest)
        if found is None:
            raise HTTPException(404, "This run has no examples: its public set has no pictures, or was not tried yet.")
        return found[0], [Example.from_json(each) for each in found[1]]

    async def take(self, request: Request, session: Session) -> Response:
        """The model file or its card, to be kept: never shown in this origin."""
        row = await self._row(request)
        what = request.url.path.rpartition("/")[2]
        try:
            found: Download | None = await self._read(download, self._w.models, row, what)
        except CoordinatorError as error:
            raise HTTPException(409, str(error)[:1000]) from None
        if found is None:
            raise HTTPException(404, "This run has no model yet: it has one when it has finished.")
        disposition = f"attachment; filename*=UTF-8''{quote(found.name)}"
        return Response(found.content, media_type=found.kind, headers={"Content-Disposition": disposition})

    async def privacy(self, request: Request, session: Session) -> Response:
        row = await self._row(request)
        manifest = manifest_of(row.manifest)
        history = await self._read(self._histories.of, row.digest)
        answers = await self._read(self._w.store.answers, row.digest)
        ends = await self._read(self._w.store.ends, row.digest)
        exposed = figures.exposed(row, manifest, history, ends)
        spent = self._w.accounts.spent(manifest, exposed, row.state.resting)
        books = self._w.accounts.books()
        view = figures.privacy_view(row, manifest, history, answers, spent, books, ends)
        return HTMLResponse(render("privacy.html", self._page(f"Privacy of {row.run}", session), view))

    async def ask_stop(self, request: Request, session: Session) -> Response:
        row = await self._row(request)
        return HTMLResponse(self._asked(row, session, await self._read(self._histories.of, row.digest), ""))

    def _asked(self, row: RunRow, session: Session, history: Any, problem: str) -> str:
        head = figures.head(row, manifest_of(row.manifest), history)
        return render("stop.html", self._page(f"Stop {row.run}", session), head, problem=problem)

    async def stop(self, request: Request, session: Session) -> Response:
        row = await self._row(request)
        final = request.state.form.get("how") == "final"
        if final and request.state.form.get("confirm", "").strip() != row.run:
            history = await self._read(self._histories.of, row.digest)
            problem = "To end a run for good, type its name."
            return HTMLResponse(self._asked(row, session, history, problem), 422)
        return await self._order(row, session, lambda: self._w.servers.operator.stop(row.run, final))

    async def resume(self, request: Request, session: Session) -> Response:
        row = await self._row(request)
        return await self._order(row, session, lambda: self._w.servers.operator.resume(row.run))

    async def _order(self, row: RunRow, session: Session, order: Callable[[], str]) -> Response:
        try:
            await asyncio.to_thread(order)
        except CoordinatorError as error:
            history = await self._read(self._histories.of, row.digest)
            return HTMLResponse(self._asked(row, session, history, str(error)[:1000]), 409)
        return RedirectResponse(f"/runs/{quote(row.run)}", 303)

    # ------------------------------------------------------------ streams

    async def events(self, request: Request, session: Session) -> Response:
        """`changed` when the run moved, `line` for every new line of the log."""
        row = await self._row(request)
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503, "Too many pages follow this coordinator: close one.")
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        stream = self._follow(row, int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 16 else None, request)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _follow(self, row: RunRow, seen: int | None, request: Request) -> AsyncIterator[str]:
        self._streams += 1
        try:
            await self._read(self._w.log.refresh)
            seen = self._w.log.count if seen is None else seen
            last, quiet = await self._standing(row), 0.0
            yield "retry: 2000\n\n"
            while self._door.session(request) is not None:
                await asyncio.sleep(POLL_SECONDS)
                quiet += POLL_SECONDS
                now = await self._read(self._w.store.get, row.digest)
                await self._read(self._w.log.refresh)
                fresh, seen = self._w.log.since(seen), self._w.log.count
                for place, line in enumerate(fresh, start=seen - len(fresh) + 1):
                    yield f"id: {place}\nevent: line\ndata: {json.dumps(render_line(line))}\n\n"
                    quiet = 0.0
                if now is not None and (standing := await self._standing(now)) != last:
                    last = standing
                    yield f"event: changed\ndata: {now.round}\n\n"
                    quiet = 0.0
                if quiet >= KEEPALIVE_SECONDS:
                    yield "event: alive\ndata: 0\n\n"
                    quiet = 0.0
        finally:
            self._streams -= 1

    async def _standing(self, row: RunRow) -> tuple[Any, ...]:
        """What an open page is told of at once when it changes."""
        presence = None if row.state.resting else self._w.servers.presence(row.run)
        troubles = presence and {(node, kind) for node, kind, _ in presence.troubles}
        answers = await self._read(self._w.store.answers, row.digest) if row.state is State.gathering else None
        return row.state, row.round, row.outcome, troubles, presence and presence.gathering_until, answers

    async def metrics(self, request: Request) -> Response:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self._w.open_metrics and self._door.session(request) is None and not self._w.sessions.knows(bearer):
            return PlainTextResponse("Give the dashboard's token: Authorization: Bearer …\n", 401)
        text = await self._read(exposition, self._w.store, self._histories)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    # ------------------------------------------------------------

    def _sign_in(self, problem: str) -> str:
        return render("login.html", self._page("Sign in", None), problem=problem)

    def _page(self, title: str, session: Session | None) -> Page:
        wiring = self._w
        csrf = session.csrf if session else ""
        return Page(wiring.node, wiring.federation, title, csrf)

    async def _row(self, request: Request) -> RunRow:
        row: RunRow | None = await self._read(figures.find, self._w.store, request.path_params["run"])
        if row is None:
            raise HTTPException(404, "There is no such run on this coordinator.")
        return row

    async def _read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """In a worker thread, one at a time: the histories are shared."""
        async with self._stores:
            return await asyncio.to_thread(function, *arguments)

    async def problem(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        said = error.detail if isinstance(error, HTTPException) else "The dashboard failed here; the run goes on."
        page = self._page("Not here" if status == 404 else "Problem", self._door.session(request))
        return HTMLResponse(render("problem.html", page, problem=said, status=str(status)), status)


def application(wiring: Wiring) -> Starlette:
    """The ASGI application."""
    pages = Pages(wiring)
    made = Starlette(
        routes=pages.routes(),
        middleware=[
            Middleware(Guard, hosts=wiring.hosts, secure=wiring.secure),
            Middleware(GZipMiddleware, minimum_size=2048, compresslevel=5),
        ],
        exception_handlers={HTTPException: pages.problem, Exception: pages.problem},
    )
    made.state.pages = pages
    return made
