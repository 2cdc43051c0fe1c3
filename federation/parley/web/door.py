"""Signing in and out, and who is let in: every page but the first stands behind a session, every form behind its word.

A session's cookie is for one port of one host; the token that begins one is in the node's own folder (`access`).
"""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from parley.web.access import SESSION_SECONDS, Session, Sessions, matches

MOST_FORM_BYTES = 8192
"""A reason of 300 characters, each spelled in twelve, and what else a form has."""

Handler = Callable[[Request, Session], Awaitable[Response]]


class Door:
    """One per site."""

    def __init__(self, sessions: Sessions, port: int, secure: bool, page: Callable[[str], str]) -> None:
        """`page` is the page that asks for the token, given what was wrong with the last one, or nothing."""
        self._sessions, self._secure, self._page = sessions, secure, page
        self._cookie = f"__Host-parley-{port}" if secure else f"parley-{port}"

    def routes(self) -> list[Any]:
        return [
            Route("/login", self._asks),
            Route("/login", self._enters, methods=["POST"]),
            Route("/logout", self.own(self._leaves), methods=["POST"]),
        ]

    def session(self, request: Request) -> Session | None:
        return self._sessions.of(request.cookies.get(self._cookie))

    def inside(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For who is logged in."""

        async def guarded(request: Request) -> Response:
            session = self.session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            return await handler(request, session)

        return guarded

    def own(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For a form of a page of that session."""

        async def guarded(request: Request) -> Response:
            session = self.session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            request.state.form = await _form(request)
            if not matches(session, request.state.form.get("csrf", "")):
                raise HTTPException(403, "This form is too old, or of another site: load the page again.")
            return await handler(request, session)

        return guarded

    async def _asks(self, request: Request) -> Response:
        if self.session(request) is not None:
            # A browser carries what follows # over a redirect that names none: of a link, that is the token.
            return RedirectResponse("/#", 303)
        return HTMLResponse(self._page(""))

    async def _enters(self, request: Request) -> Response:
        name = self._sessions.begin((await _form(request)).get("token", ""))
        if name is None:
            return HTMLResponse(self._page("That is not this node's token."), 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._cookie, name, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict", secure=self._secure
        )
        return answer

    async def _leaves(self, request: Request, session: Session) -> Response:
        self._sessions.end(request.cookies.get(self._cookie))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=self._secure)
        return answer


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_FORM_BYTES:
            raise HTTPException(413, "The form is too long.")
    fields = parse_qs(body.decode("utf-8", errors="replace"), max_num_fields=10)
    return {name: values[0] for name, values in fields.items()}
