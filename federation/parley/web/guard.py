"""What every request passes and every answer carries. Pure ASGI, so that streams are not buffered. Starlette only.

A page on loopback can be reached by a foreign site through a name that resolves to 127.0.0.1: so a plain listener
answers to loopback's own names alone. With TLS the certificate says who this is.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # stricter, and browsers send forms with the origin "null"
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Refuses foreign hosts and foreign forms; adds the headers."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], secure: bool) -> None:
        self._app, self._hosts, self._secure = app, frozenset(hosts), secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answer[name] = value
                if not scope["path"].startswith("/static/"):
                    answer["Cache-Control"] = "no-store"
                if self._secure:
                    answer["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        host = headers.get("host", "").lower()
        if not self._secure and _name(host) not in self._hosts:
            refused = PlainTextResponse("These pages answer on loopback only.\n", 421)
            await refused(scope, receive, guarded)
        elif scope["method"] not in ("GET", "HEAD") and not self._own(headers, host):
            await PlainTextResponse("The form is of another site.\n", 403)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _own(self, headers: Headers, host: str) -> bool:
        """Whether a form was sent by a page of this origin, as far as the browser says."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or (origin != "null" and urlsplit(origin).netloc.lower() == host)


def _name(host: str) -> str:
    bare, colon, digits = host.rpartition(":")
    return bare if colon and digits.isdigit() and (bare.endswith("]") or ":" not in bare) else host
