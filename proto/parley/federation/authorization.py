"""Who may call what: an interceptor that knows peers by the URI in their certificate, never by a name in a message.

Every method lists its callers; a method that is not listed is closed to all. The same rules for `grpc` and `grpc.aio`.
Imports grpc, `cryptography` and this folder only.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import grpc
from cryptography import x509

from parley.federation.credentials import check_time, check_usage, load_certificate, name_in
from parley.federation.errors import CertificateError, NotAuthenticatedError, NotAuthorisedError, PeerRefusedError
from parley.federation.names import NodeName

Callers = Container[NodeName] | Callable[[], Container[NodeName]]
"""Fixed, or asked at every call: a server of several runs learns of callers as manifests are admitted."""
CODES = {
    NotAuthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    NotAuthorisedError: grpc.StatusCode.PERMISSION_DENIED,
}


@lru_cache(maxsize=4096)
def _certified(pem: bytes) -> tuple[x509.Certificate, NodeName]:
    certificate = load_certificate(pem)
    name = name_in(certificate)
    check_usage(certificate, name)
    return certificate, name


_caller: ContextVar[tuple[Any, NodeName] | None] = ContextVar("caller", default=None)
"""The call that was authorised last in this task or thread, and who makes it."""


def peer_of(context: Any) -> NodeName:
    """Who is calling, from a servicer's context. TLS has checked the chain; connections may outlive a certificate."""
    known = _caller.get()
    if known is not None and known[0] is context:
        return known[1]
    presented: Sequence[bytes] = context.auth_context().get("x509_pem_cert") or ()
    if len(presented) != 1:
        raise NotAuthenticatedError("no certificate was presented: dial with this node's certificate")
    try:
        certificate, name = _certified(bytes(presented[0]))
        check_time(certificate)
    except CertificateError as error:
        raise NotAuthenticatedError(str(error)) from None
    return name


class Authorizer:
    """The rules of one server."""

    def __init__(self, callers: Mapping[str, Callers]) -> None:
        """`callers` by full method, such as `/parley.v1.NoiseService/Converse`."""
        for method in callers:
            if method.count("/") != 2 or not method.startswith("/"):
                raise ValueError(f"{method!r} is no full method: write /package.Service/Method")
        self._callers = dict(callers)

    def require(self, method: str, context: Any) -> NodeName:
        """The caller, if it may call `method`."""
        peer = peer_of(context)
        callers = self._callers.get(method, ())
        if peer not in (callers() if callable(callers) else callers):
            raise NotAuthorisedError(
                f"{peer} may not call {method.rsplit('/', 1)[-1]}: it is not in an admitted manifest"
            )
        _caller.set((context, peer))
        return peer


class Authorization(grpc.ServerInterceptor):
    """For `grpc.server(interceptors=[…])`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        return handler and _guarded(handler, self._wrap(details.method, _behaviour(handler)))

    def _wrap(self, method: str, inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def behaviour(request: Any, context: Any) -> Any:
            try:
                self._authorizer.require(method, context)
            except PeerRefusedError as error:
                context.abort(CODES[type(error)], str(error))
            return inner(request, context)

        return behaviour


class AioAuthorization(grpc.aio.ServerInterceptor):
    """For `grpc.aio.server(interceptors=[…])`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._guarded: dict[str, tuple[Any, Any]] = {}
        """Method -> its handler and the guarded one, made once."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)
        if not handler:
            return handler
        known = self._guarded.get(details.method)
        if known is None or known[0] is not handler:
            wrap = self._stream if handler.response_streaming else self._single
            known = handler, _guarded(handler, wrap(details.method, _behaviour(handler)))
            self._guarded[details.method] = known
        return known[1]

    async def _require(self, method: str, context: Any) -> None:
        try:
            self._authorizer.require(method, context)
        except PeerRefusedError as error:
            await context.abort(CODES[type(error)], str(error))

    def _single(self, method: str, inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        async def behaviour(request: Any, context: Any) -> Any:
            await self._require(method, context)
            return await inner(request, context)

        return behaviour

    def _stream(self, method: str, inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def behaviour(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._require(method, context)
            answers = inner(request, context)
            if inspect.isawaitable(answers):  # a handler that writes through the context
                await answers
                return
            async for answer in answers:
                yield answer

        return behaviour


def _behaviour(handler: Any) -> Callable[[Any, Any], Any]:
    kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, False): "stream_unary"}
    found: Callable[[Any, Any], Any] = getattr(
        handler, kinds.get((handler.request_streaming, handler.response_streaming), "stream_stream")
    )
    return found


def _guarded(handler: Any, behaviour: Callable[[Any, Any], Any]) -> Any:
    makers = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    make: Callable[..., Any] = makers[handler.request_streaming, handler.response_streaming]
    return make(behaviour, handler.request_deserializer, handler.response_serializer)
