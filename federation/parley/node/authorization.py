"""Who may call what: an interceptor that knows peers by the key that is pinned for them, never by a name in a message.

Who calls is whose key TLS has seen in use: the certificate shown names a node, and its key has to be the one that is
pinned for that node, so that no pinned node can speak as another, whatever its key signs. Besides, the authority has to
have enrolled that key under that name, until a day to come. Every method lists its callers; a method that is not listed
is closed to all. The same rules for `grpc` and `grpc.aio`.
"""

import asyncio
import inspect
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import grpc
from cryptography import x509

from parley.federation.errors import (
    CertificateError,
    NotAuthenticatedError,
    NotAuthorisedError,
    PeerRefusedError,
    RevokedError,
)
from parley.federation.names import NodeName, Role
from parley.node.credentials import (
    Identity,
    NodeFolder,
    check_authority,
    check_time,
    check_usage,
    load_certificate,
    name_in,
)
from parley.node.newer import NO_MESSAGE, strict
from parley.node.pins import key_of
from parley.node.refusals import RefusedCallError, abort
from parley.node.transport import InUse
from parley.v1 import common_pb2

Callers = Container[NodeName] | Callable[[], Container[NodeName]]
"""Fixed, or asked at every call: a server of several runs learns of callers as manifests are admitted."""
MOST_CALLS_OF_ONE = 128
"""At once, of one peer on one port: its long polls, and room for what hangs."""
PATIENCE_SECONDS = 10.0
"""For the message of a call that has begun."""
MOST_CERTIFICATE_BYTES = 16 << 10


@lru_cache(maxsize=4096)
def _certified(shown: bytes, enrolment: bytes, authority: bytes) -> tuple[NodeName, bytes, x509.Certificate]:
    """Whom a certificate names, its key, and the authority's certificate for both."""
    certificate, enrolled = load_certificate(shown), load_certificate(enrolment, "the enrolment")
    name, key = name_in(certificate), key_of(certificate.public_key())
    check_authority(enrolled, load_certificate(authority, "the authority's certificate"))
    check_usage(enrolled, name)
    if name_in(enrolled) != name or key_of(enrolled.public_key()) != key:
        raise CertificateError(f"{name} shows another node's enrolment: install the certificate made for its key")
    return name, key, enrolled


_caller: ContextVar[tuple[Any, NodeName] | None] = ContextVar("caller", default=None)
"""The call that was authorised last in this task or thread, and who makes it."""


def peer_of(context: Any, identity: Identity | None = None) -> NodeName:
    """Who is calling, from a servicer's context: as an `Authorizer` found, or by the pins of a given identity."""
    known = _caller.get()
    if known is not None and known[0] is context:
        return known[1]
    if identity is None:
        raise NotAuthenticatedError("the caller was not checked: serve behind an Authorization")
    properties = context.auth_context()
    presented: Sequence[bytes] = properties.get("x509_pem_cert") or ()
    # What a caller sends besides; the key's own certificate is enough for TLS, and not for us.
    enrolment = b"".join(properties.get("x509_pem_cert_chain") or ())
    if len(presented) != 1 or enrolment.count(b"-----BEGIN CERTIFICATE") != 1:
        raise NotAuthenticatedError("no certificate was presented: dial with this node's certificate")
    if len(presented[0]) + len(enrolment) > MOST_CERTIFICATE_BYTES:
        raise NotAuthenticatedError("the certificate is too long for a node's: request another")
    try:
        name, key, enrolled = _certified(bytes(presented[0]), enrolment, identity.authority)
        check_time(enrolled)
        if key in identity.pins.revoked:
            raise RevokedError(name)
        if key not in identity.pins.require(name):
            raise CertificateError(f"the key is not the one that is pinned for {name}")
    except CertificateError as error:
        raise NotAuthenticatedError(str(error)) from None
    return name


class Pinned:
    """Every node of a role that is pinned: nobody else gets as far as being looked for among callers."""

    def __init__(self, federation: str, role: Role) -> None:
        self._federation, self._role = federation, role

    def __contains__(self, name: object) -> bool:
        return isinstance(name, NodeName) and name.role is self._role and name.federation == self._federation


class Authorizer:
    """The rules of one server."""

    def __init__(self, callers: Mapping[str, Callers], folder: NodeFolder) -> None:
        """`callers` by full method, such as `/parley.v1.NoiseService/Converse`; the pins are those of `folder`."""
        for method in callers:
            if method.count("/") != 2 or not method.startswith("/"):
                raise ValueError(f"{method!r} is not a full method: write /package.Service/Method")
        self._callers = dict(callers)
        self._in_use = InUse(folder)
        self._standing = defaultdict[NodeName, set[Callable[[], object]]](set)
        """What ends each call that is under way."""
        self._lock = threading.Lock()
        _authorizers.add(self)

    def require(self, method: str, context: Any) -> NodeName:
        """The caller, if it may call `method`."""
        peer = peer_of(context, self._in_use())
        callers = self._callers.get(method, ())
        if peer not in (callers() if callable(callers) else callers):
            raise NotAuthorisedError(
                f"{peer} may not call {method.rsplit('/', 1)[-1]}: it is not in an admitted manifest"
            )
        _caller.set((context, peer))
        return peer

    @contextmanager
    def standing(self, peer: NodeName, end: Callable[[], object]) -> Iterator[None]:
        """While a call is under way: `end` is called if the authority revokes the caller meanwhile."""
        with self._lock:
            self._standing[peer].add(end)
        try:
            if self._in_use().pins.is_revoked(peer):  # between the look at the caller and now
                raise NotAuthenticatedError(str(RevokedError(peer)))
            yield
        finally:
            with self._lock:
                self._standing[peer].discard(end)
                if not self._standing[peer]:
                    del self._standing[peer]

    def cut(self) -> None:
        """End the calls of callers that are revoked now."""
        pins = self._in_use().pins
        with self._lock:
            ends = [end for peer, held in self._standing.items() if pins.is_revoked(peer) for end in held]
        for end in ends:
            end()


_authorizers: weakref.WeakSet[Authorizer] = weakref.WeakSet()


def cut_revoked() -> None:
    """At every server of this process."""
    for authorizer in tuple(_authorizers):
        authorizer.cut()


class Authorization(grpc.ServerInterceptor):
    """For `grpc.server(interceptors=[…])`."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        return handler and _guarded(handler, self._wrap(details.method, handler))

    def _wrap(self, method: str, handler: Any) -> Callable[[Any, Any], Any]:
        inner = _behaviour(handler)

        def behaviour(messages: Any, context: Any) -> Any:
            try:
                peer = self._authorizer.require(method, context)
            except PeerRefusedError as error:
                abort(context, error)
                raise
            parse = strict(handler.request_deserializer or bytes)
            if handler.request_streaming:
                answer = inner(map(parse, messages), context)  # who reads them says what is wrong
                return self._lasting(peer, context, answer) if handler.response_streaming else answer
            try:
                request = parse(next(messages))
            except RefusedCallError as error:
                abort(context, error)
                raise
            except Exception:  # the call ended before its message
                abort(context, NO_MESSAGE)
                raise
            return inner(request, context)

        return behaviour

    def _lasting(self, peer: NodeName, context: Any, answers: Iterator[Any]) -> Iterator[Any]:
        """A conversation: it ends with its caller's certificate."""
        try:
            with self._authorizer.standing(peer, context.cancel):
                yield from answers
        except NotAuthenticatedError as error:
            abort(context, error)


class AioAuthorization(grpc.aio.ServerInterceptor):
    """For `grpc.aio.server(interceptors=[…])`. One peer cannot take all the calls that a server answers at once."""

    def __init__(
        self, authorizer: Authorizer, most_calls: int = MOST_CALLS_OF_ONE, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._authorizer, self._most_calls, self._patience_seconds = authorizer, most_calls, patience_seconds
        self._calls: Counter[NodeName] = Counter()
        self._guarded: dict[str, tuple[Any, Any]] = {}
        """Method -> its handler and the guarded one, made once."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)
        if not handler:
            return handler
        known = self._guarded.get(details.method)
        if known is None or known[0] is not handler:
            wrap = self._stream if handler.response_streaming else self._single
            known = handler, _guarded(handler, wrap(details.method, handler))
            self._guarded[details.method] = known
        return known[1]

    async def _enter(self, method: str, context: Any) -> NodeName:
        """Who calls; `_leave` has to follow."""
        try:
            peer = self._authorizer.require(method, context)
        except PeerRefusedError as error:
            await abort(context, error)
            raise
        if self._calls[peer] >= self._most_calls:
            await abort(
                context,
                RefusedCallError(
                    common_pb2.REFUSAL_BUSY, f"{self._most_calls} calls of this peer are open", "wait for answers"
                ),
            )
        self._calls[peer] += 1
        return peer

    def _leave(self, peer: NodeName) -> None:
        self._calls[peer] -= 1
        if not self._calls[peer]:
            del self._calls[peer]

    @asynccontextmanager
    async def _unless_revoked(self, peer: NodeName, context: Any) -> AsyncIterator[None]:
        """gRPC tells the caller nothing of a task that was cancelled: so it is told here."""
        task, loop, revoked = asyncio.current_task(), asyncio.get_running_loop(), asyncio.Event()
        assert task is not None

        def end() -> None:
            revoked.set()
            task.cancel()

        try:
            with self._authorizer.standing(peer, lambda: loop.is_closed() or loop.call_soon_threadsafe(end)):
                yield
        except asyncio.CancelledError:
            if not revoked.is_set():
                raise
            task.uncancel()
            await abort(context, NotAuthenticatedError(str(RevokedError(peer))))
        except NotAuthenticatedError as error:
            await abort(context, error)

    async def _request(self, handler: Any, messages: Any, context: Any) -> Any:
        """What the behaviour is called with: the messages, or the only one, which has to come soon."""
        parse = strict(handler.request_deserializer or bytes)
        if handler.request_streaming:
            return _parsed(parse, messages, context)
        try:
            async with asyncio.timeout(self._patience_seconds):
                return parse(await context.read())
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the call was begun and its message did not come")
        except RefusedCallError as error:
            await abort(context, error)
        except Exception:  # the call ended before its message
            await abort(context, NO_MESSAGE)

    def _single(self, method: str, handler: Any) -> Callable[[Any, Any], Any]:
        inner = _behaviour(handler)

        async def behaviour(messages: Any, context: Any) -> Any:
            peer = await self._enter(method, context)
            try:
                async with self._unless_revoked(peer, context):
                    return await inner(await self._request(handler, messages, context), context)
            finally:
                self._leave(peer)

        return behaviour

    def _stream(self, method: str, handler: Any) -> Callable[[Any, Any], AsyncIterator[Any]]:
        inner = _behaviour(handler)

        async def behaviour(messages: Any, context: Any) -> AsyncIterator[Any]:
            peer = await self._enter(method, context)
            try:
                async with self._unless_revoked(peer, context):
                    answers = inner(await self._request(handler, messages, context), context)
                    if inspect.isawaitable(answers):  # a handler that writes through the context
                        await answers
                        return
                    async for answer in answers:
                        yield answer
            finally:
                self._leave(peer)

        return behaviour


async def _parsed(parse: Callable[[bytes], Any], messages: Any, context: Any) -> AsyncIterator[Any]:
    async for message in messages:
        try:
            yield parse(message)
        except RefusedCallError as error:
            await abort(context, error)


def _behaviour(handler: Any) -> Callable[[Any, Any], Any]:
    kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, False): "stream_unary"}
    found: Callable[[Any, Any], Any] = getattr(
        handler, kinds.get((handler.request_streaming, handler.response_streaming), "stream_stream")
    )
    return found


def _guarded(handler: Any, behaviour: Callable[[Any, Any], Any]) -> Any:
    """As a handler of a stream of requests, even where there is one: on the wire both are the same.

    gRPC then leaves it to us how long a request is waited for, and what becomes of bytes that are no message.
    """
    make: Any = (
        grpc.stream_stream_rpc_method_handler if handler.response_streaming else (grpc.stream_unary_rpc_method_handler)
    )
    return make(behaviour, None, handler.response_serializer)
