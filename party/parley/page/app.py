"""The pages: sign in, the node, a run, the budget; and the forms that approve, refuse, withdraw, sign a report.

Every answer but the first page and the assets needs a session; nothing is changed but by POST with the session's own
word. A form of a decision carries the digest of everything that was shown with it (`figures.binding`): if anything has
changed since, in another tab or in the node, it is shown again and nothing is decided.
"""

import asyncio
import hmac
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from parley.errors import ParleyError
from parley.federation.extras import missing
from parley.federation.manifest import Manifest
from parley.page import decisions, figures, home, views
from parley.page.costs import Costs
from parley.page.folder import Folder, Snapshot
from parley.page.pages import render
from parley.page.peers import ask
from parley.party.outbox import RunState
from parley.party.report import facts_of
from parley.report.check import FORMS
from parley.report.maker import made
from parley.web.access import Session, Sessions
from parley.web.assets import STATIC
from parley.web.door import Door, Handler
from parley.web.guard import Guard

TYPED = 8
"""Characters of the manifest's digest that a person types."""
KINDS = {"html": "text/html; charset=utf-8", "pdf": "application/pdf", "json": "application/json"}
CHANGED = (
    "Something has changed since this page was shown to you, so nothing was decided. This is how it is now: read it, "
    "and decide again."
)
OWN_SECONDS = 600.0
OWN = "parley.page.own"
NOT_COMPUTED = views.Own("not computed")


@dataclass(frozen=True)
class Wiring:
    """What the pages read, and how they are served."""

    folder: Folder
    sessions: Sessions
    hosts: tuple[str, ...]
    port: int


class Pages:
    """The handlers."""

    def __init__(self, wiring: Wiring) -> None:
        self._folder, self._port = wiring.folder, wiring.port
        self._door = Door(wiring.sessions, wiring.port, False, self._sign_in)
        self._costs = Costs(wiring.folder.settings, wiring.folder.name.name)
        self._reading = asyncio.Lock()
        self._deciding = asyncio.Lock()
        self._own: dict[bytes, views.Own] = {}
        self._computing: dict[bytes, asyncio.Task[None]] = {}
        self._looked: dict[str, tuple[str, str]] = {}

    def routes(self) -> list[Any]:
        inside, own = self._inside, self._of_a_form
        return [
            *self._door.routes(),
            Route("/", inside(self.node)),
            Route("/peers", own(self.peers), methods=["POST"]),
            Route("/runs/{digest}", inside(self.run)),
            Route("/runs/{digest}/manifest", inside(self.manifest)),
            Route("/runs/{digest}/approve", own(self.approve), methods=["POST"]),
            Route("/runs/{digest}/refuse", own(self.refuse), methods=["POST"]),
            Route("/runs/{digest}/withdraw", own(self.withdraw), methods=["POST"]),
            Route("/runs/{digest}/own", own(self.compute), methods=["POST"]),
            Route("/runs/{digest}/report", own(self.report), methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def _inside(self, handler: Handler) -> Any:
        return self._door.inside(self._quiet(handler))

    def _of_a_form(self, handler: Handler) -> Any:
        return self._door.own(self._quiet(handler))

    def _quiet(self, handler: Handler) -> Handler:
        """A defect is a page that says so, and a line that names its class: a stack trace might quote a record."""

        async def guarded(request: Request, session: Session) -> Response:
            try:
                return await handler(request, session)
            except HTTPException:
                raise
            except Exception as error:
                kind = type(error).__name__
                print(json.dumps({"level": "error", "event": "the page failed", "kind": kind}), file=sys.stderr)
                raise HTTPException(500, f"This page failed ({kind}); the node is not touched by it.") from None

        return guarded

    async def warm(self) -> None:
        """Before anybody is let in: a folder that cannot be read is seen on the page, and not here."""
        await self._snapshot()

    async def close(self) -> None:
        await self._costs.close()
        for task in self._computing.values():
            task.cancel()
        await asyncio.gather(*self._computing.values(), return_exceptions=True)

    # ------------------------------------------------------------ pages

    async def node(self, request: Request, session: Session) -> Response:
        found = await self._snapshot()
        view = await asyncio.to_thread(home.node_view, self._folder, found, self._looked)
        return HTMLResponse(render("node.html", self._page("This node", session), view))

    async def peers(self, request: Request, session: Session) -> Response:
        self._looked = await asyncio.to_thread(ask, self._folder)
        return RedirectResponse("/#peers", 303)

    async def run(self, request: Request, session: Session) -> Response:
        view, _ = await self._run(request)
        return HTMLResponse(self._shown(view, session))

    async def manifest(self, request: Request, session: Session) -> Response:
        """The very bytes whose SHA-256 is the digest: to be kept, and never shown in this origin."""
        held = self._held(request, await self._snapshot())
        disposition = f"attachment; filename*=UTF-8''{quote(f'{held.run}.manifest.txt')}"
        return Response(held.manifest, media_type="text/plain", headers={"Content-Disposition": disposition})

    async def _run(self, request: Request) -> tuple[views.RunView, Manifest]:
        """As it is now, with the digest of all that a decision rests on."""
        found = await self._snapshot()
        held = self._held(request, found)
        manifest = self._folder.manifest(held)
        if manifest is None:
            raise HTTPException(404, "This run is of an earlier version of parley, which alone can show it.")
        cost = self._costs.of(manifest, found.books.policy)
        own = self._own.get(held.digest, NOT_COMPUTED)

        def made_view() -> views.RunView:
            ground = decisions.ground_of(self._folder, manifest)
            return figures.run_view(self._folder, found, held, cost, ground, own)

        view = await asyncio.to_thread(made_view)
        return replace(view, shown=figures.binding(view)), manifest

    def _shown(self, view: views.RunView, session: Session, problem: str = "") -> str:
        return render("run.html", self._page(view.head.name, session), view, problem=problem)

    # ------------------------------------------------------------ decisions

    async def approve(self, request: Request, session: Session) -> Response:
        def decide(view: views.RunView, manifest: Manifest, form: dict[str, str]) -> str:
            if not view.may_approve:
                return view.why_not or "Reviewers sign this run with their own keys: the command is below."
            digits = manifest.digest.hex()[:TYPED]
            if form.get("typed", "").strip().lower() != digits:
                return f"To approve, type the first {TYPED} characters of the manifest’s digest, {digits}."
            return decisions.approve(self._folder, manifest, view, form["by"])

        return await self._decided(request, session, decide)

    async def refuse(self, request: Request, session: Session) -> Response:
        def decide(view: views.RunView, manifest: Manifest, form: dict[str, str]) -> str:
            if not view.may_refuse:
                return "There is nothing to refuse: it was decided before."
            reason = form.get("reason", "")
            return decisions.problem_with_reason(reason) or decisions.refuse(self._folder, manifest, form["by"], reason)

        return await self._decided(request, session, decide)

    async def withdraw(self, request: Request, session: Session) -> Response:
        def decide(view: views.RunView, manifest: Manifest, form: dict[str, str]) -> str:
            if not view.may_withdraw:
                return "There is nothing to withdraw from: this party has left it, or it is over."
            if form.get("typed", "").strip() != manifest.run:
                return f"To withdraw, type the run’s name, {manifest.run}."
            return decisions.withdraw(self._folder, manifest, form["by"])

        return await self._decided(request, session, decide)

    async def _decided(
        self, request: Request, session: Session, decide: Callable[[views.RunView, Manifest, dict[str, str]], str]
    ) -> Response:
        """One decision at a time, on what is there now, if that is what was shown."""
        form: dict[str, str] = request.state.form
        async with self._deciding:
            view, manifest = await self._run(request)
            if not hmac.compare_digest(form.get("shown", "").encode(), view.shown.encode()):
                return HTMLResponse(self._shown(view, session, CHANGED), 409)
            problem = decisions.problem_with_name(form.get("by", ""))
            try:
                problem = problem or await asyncio.to_thread(decide, view, manifest, form)
            except (ParleyError, OSError) as error:
                problem = decisions.said(error)
            if problem:
                view, _ = await self._run(request)
                return HTMLResponse(self._shown(view, session, problem), 422)
        return RedirectResponse(f"/runs/{manifest.digest.hex()}", 303)

    # ------------------------------------------------------------ what is this institution's own, and reports

    async def compute(self, request: Request, session: Session) -> Response:
        """Own figures, in a process that ends with them; one for a run at a time."""
        held = self._held(request, await self._snapshot())
        task = self._computing.get(held.digest)
        if task is None or task.done():
            self._own[held.digest] = views.Own("computing")
            self._computing[held.digest] = asyncio.ensure_future(self._compute(held.digest))
        return RedirectResponse(f"/runs/{held.digest.hex()}#own", 303)

    async def _compute(self, digest: bytes) -> None:
        question = json.dumps({"node": str(self._folder.node.folder.absolute()), "run": digest.hex()})
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", OWN,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(OWN_SECONDS):
                answer, _ = await process.communicate(question.encode())
            self._own[digest] = _own(json.loads(answer))
        except TimeoutError:
            self._own[digest] = views.Own(f"not computed in {OWN_SECONDS:.0f} s")
        except ValueError:
            self._own[digest] = views.Own(f"the process that computes it ended with code {process.returncode}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def report(self, request: Request, session: Session) -> Response:
        """Signed with the node's key, which the trail notes; to be kept, and never shown in this origin."""
        form = request.state.form.get("form", "")
        if form not in KINDS:
            raise HTTPException(422, "Choose HTML, PDF or JSON.")
        held, node = self._held(request, await self._snapshot()), self._folder.node

        def signed() -> bytes:
            return FORMS[form](made(node, lambda _, dates: facts_of(node, held.run, dates, held.digest)))

        try:
            content = await asyncio.to_thread(signed)
        except (ParleyError, OSError) as error:
            raise HTTPException(409, f"The report cannot be made: {error}"[:1000]) from None
        except ImportError as error:
            raise HTTPException(409, f"The report cannot be made: {missing(error) or error}") from None
        disposition = f"attachment; filename*=UTF-8''{quote(f'{held.run}.report.{form}')}"
        return Response(content, media_type=KINDS[form], headers={"Content-Disposition": disposition})

    # ------------------------------------------------------------

    def _held(self, request: Request, found: Snapshot) -> RunState:
        for held in found.states:
            if held.digest.hex() == request.path_params["digest"]:
                return held
        said = " ".join(found.problems) or "No such run was proposed to this party."
        raise HTTPException(404, said[:1000])

    async def _snapshot(self) -> Snapshot:
        """In a worker thread, one at a time."""
        async with self._reading:
            return await asyncio.to_thread(self._folder.read)

    def _sign_in(self, problem: str) -> str:
        return render("login.html", self._page("Sign in", None), problem=problem)

    def _page(self, title: str, session: Session | None) -> views.Page:
        name = self._folder.name
        return views.Page(name.name, name.federation, title, session.csrf if session else "")

    async def problem(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        said = error.detail if isinstance(error, HTTPException) else "This page failed; the node is not touched by it."
        page = self._page("Not here" if status == 404 else "Problem", self._door.session(request))
        return HTMLResponse(render("problem.html", page, problem=said, status=str(status)), status)


def _own(body: dict[str, Any]) -> views.Own:
    if "refused" in body:
        return views.Own(str(body["refused"]))
    return views.Own(
        state="ready",
        records=body["records"],
        units=body["units"],
        cut=tuple(views.Cut(name, count) for name, count in body["cut"]),
        loss=body.get("loss"),
        loss_of=body.get("loss_of", ""),
        clipped=body.get("clipped"),
        clipped_why=body.get("clipped_why", ""),
        excluded=tuple(body["excluded"]),
    )


def application(wiring: Wiring) -> Starlette:
    """The ASGI application."""
    pages = Pages(wiring)
    made_app = Starlette(
        routes=pages.routes(),
        middleware=[
            Middleware(Guard, hosts=wiring.hosts, secure=False),
            Middleware(GZipMiddleware, minimum_size=2048, compresslevel=5),
        ],
        exception_handlers={HTTPException: pages.problem, Exception: pages.problem},
    )
    made_app.state.pages = pages
    return made_app
