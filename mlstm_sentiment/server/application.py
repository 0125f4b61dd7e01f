"""What the server answers: the page of a model, POST /classify, and errors as JSON.

Short requests to classify are answered together, long ones in threads of their own, so that no
short one waits for them.
"""

import asyncio
import errno
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator
from concurrent.futures import Future
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InputError, suggestion
from ..head.head_files import HOW_TO_FIT
from ..reading.texts import unicode_text
from .answers import Answer, AnswerRow, Batcher, TooManyTokens

_SHORT = 1 << 12  # bytes of the body of a short request
_LONG_ONES = 16  # texts of the others that are answered together
_PIECE = 1 << 16  # bytes of the page per write; a slow client delays the next one
JSON_TYPE = "application/json"
HEALTH = "/health"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "Cache-Control": "no-store",
}
# An IP address, or a name without a dot, as containers have: no other site has such a name.
_NEAR = re.compile(r"(\[[0-9a-f:.]+\]|[0-9.]+|[\w-]+)(:\d+)?")

log = logging.getLogger(__name__)


class Limits(NamedTuple):
    """What one client may ask for."""

    body: int = 1 << 16  # bytes
    texts: int = 128  # of a request
    tokens: int = 10_000  # of a text
    headers: int = 1 << 14  # bytes, with the address
    seconds: float = 60.0  # until the answer, and for each part of it to be received
    clients: int = 64  # requests at the same time
    idle_seconds: float = 30.0  # of a connection


class Address(NamedTuple):
    """Where the server listens: an IP address and a port."""

    host: str
    port: int

    def is_named_by(self, header: str, has_token: bool) -> bool:
        """Return whether a request's Host names this server.

        Under another name for this machine, a foreign page could use the model in the visitor's
        browser. A server for other machines does not know its names; it relies on its token, and
        without one on names that no foreign page can have.
        """
        header = header.lower()
        if not ip_address(self.host).is_loopback:
            return has_token or _NEAR.fullmatch(header) is not None
        names = {"127.0.0.1", "localhost", f"[{self.host}]" if ":" in self.host else self.host}
        own = {f"{name}:{self.port}" for name in names}
        return header in own or (self.port == 80 and header in names)


class _Guard:
    """Adds security headers; refuses requests for another host, without the token, or too many."""

    def __init__(self, app: ASGIApp, address: Address, token: str | None, limits: Limits):
        self._app, self._address, self._token, self._limits = app, address, token, limits
        self._clients = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self._refusal(scope) or self._app
        if scope["path"] == HEALTH:  # says nothing about the model
            app = _on_health(scope)
        self._clients += 1
        try:
            await self._in_time(app, scope, receive, send_with_headers)
        finally:
            self._clients -= 1

    async def _in_time(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; end it if it takes too long, or if the server ends."""
        seconds, clock, has_begun = self._limits.seconds, asyncio.get_running_loop().time, False

        async def send_in_time(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            limit.reschedule(clock() + seconds)
            await send(message)

        try:
            async with asyncio.timeout(seconds) as limit:
                return await app(scope, receive, send_in_time)
        except TimeoutError:
            reason = f"no answer in {seconds:g} seconds; send fewer texts"
        except asyncio.CancelledError:
            reason = "the server is shutting down"
        if not has_begun:
            await _refusal(503, reason)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        if self._clients >= self._limits.clients:
            return _refusal(503, f"busy: {self._clients} requests at the same time; try again")
        lengths = [len(name) + len(value) for name, value in scope["headers"]]
        if (
            sum(lengths) + len(scope["raw_path"]) + len(scope["query_string"])
            > self._limits.headers
        ):
            return _refusal(431, f"address and headers: at most {self._limits.headers:,} bytes")
        headers = Headers(scope=scope)
        if not self._address.is_named_by(headers.get("host", ""), self._token is not None):
            return _refusal(403, "the Host of the request is not the address of this server")
        if self._token is not None and not self._has_token(headers, scope["query_string"]):
            return _refusal(
                401,
                "no token, or a wrong one: open the address that serve printed, or send the header "
                "Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )
        return None

    def _has_token(self, headers: Headers, query: bytes) -> bool:
        assert self._token is not None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        tokens = [token.strip()] if scheme.lower() == "bearer" else []
        tokens += parse_qs(query.decode("latin-1")).get("token", [])
        return any(secrets.compare_digest(g.encode(), self._token.encode()) for g in tokens)


def _on_health(scope: Scope) -> JSONResponse:
    if scope["method"] in ("GET", "HEAD"):
        return JSONResponse({"status": "ok"})
    return _refusal(405, f"this path does not take {scope['method']}; use GET", {"Allow": "GET"})


def _refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


def application(
    page: bytes | None,
    answer: Answer | None,
    address: Address,
    token: str | None,
    limits: Limits,
    *,
    has_sides: bool = True,
) -> ASGIApp:
    """Return the ASGI application.

    page: None if it cannot compute the model. answer: None if the model has no classifier. token:
    required in every request, if not None. has_sides: whether its classes are two.
    """
    if answer is not None:
        short, long = Batcher(answer, limits.texts, 1), Batcher(answer, _LONG_ONES, 2)

    async def show_page(request: Request) -> Response:
        if page is None:
            raise HTTPException(404, "this model has no page; use POST /classify")
        length = {"Content-Length": str(len(page))}
        return StreamingResponse(_pieces(page), headers=length, media_type="text/html")

    async def classify(request: Request) -> Response:
        if answer is None:
            raise HTTPException(404, f"this model has no classifier. {HOW_TO_FIT}")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON_TYPE:
            raise HTTPException(415, f"the Content-Type is {kind or 'absent'}; send {JSON_TYPE}")
        body = await _body(request, limits.body)
        texts, sides = _question_in(body, limits)
        if sides and not has_sides:
            raise HTTPException(400, "sides is for a model of two classes; leave it out")
        batcher = short if len(body) <= _SHORT else long
        try:
            rows = await _unless_left(request, batcher.submit(texts, sides))
        except TooManyTokens as error:
            raise HTTPException(413, str(error)) from None
        return JSONResponse({"results": rows, **({"sides": True} if sides else {})})

    routes = [
        Route("/", show_page),
        Route("/index.html", show_page),
        Route("/classify", classify, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _on_refusal,
        ClientDisconnect: _on_disconnect,
        Exception: _on_error,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return _Guard(app, address, token, limits)


_KEYS = ("texts", "sides")  # of a request's body


def _question_in(body: bytes, limits: Limits) -> tuple[list[str], bool]:
    """Return the texts of a request's body, and whether the labels are to be two sides only.

    HTTPException 400 or 413 unless they are all right.
    """
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise HTTPException(400, 'the body must be an object: {"texts": ["I like it."]}')
    for key in payload:
        if key not in _KEYS:
            raise HTTPException(400, f"unknown key {key[:50]!r}{suggestion(key[:50], _KEYS)}")
    texts, sides = payload.get("texts"), payload.get("sides", False)
    if not isinstance(sides, bool):
        raise HTTPException(400, '"sides" must be true or false')
    if isinstance(texts, list):  # as in Python, a missing text is no answer
        texts = ["" if text is None else text for text in texts]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, '"texts" must be a list of strings')
    if len(texts) > limits.texts:
        raise HTTPException(413, f"{len(texts)} texts; at most {limits.texts} a request")
    for number, text in enumerate(texts, start=1):
        try:
            unicode_text(text, f"text {number}")
        except InputError as error:
            raise HTTPException(400, str(error)) from None
    return texts, sides


async def _body(request: Request, most: int) -> bytes:
    """Return a request's body; HTTPException 413 if it is too long, without reading it all."""
    too_long = HTTPException(413, f"the body is too long; at most {most:,} bytes")
    if int(request.headers.get("content-length", 0)) > most:
        raise too_long
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise too_long
    return bytes(body)


async def _unless_left(request: Request, submitted: "Future[list[AnswerRow]]") -> list[AnswerRow]:
    """Return the rows; cancel them if this is cancelled, or the client leaves.

    Raises ClientDisconnect in that case.
    """

    async def leaving() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    rows = asyncio.wrap_future(submitted)
    left = asyncio.ensure_future(leaving())
    try:
        await asyncio.wait((rows, left), return_when=asyncio.FIRST_COMPLETED)
        if not rows.done():
            raise ClientDisconnect
        return rows.result()
    finally:
        left.cancel()
        submitted.cancel()  # now: through `rows`, it would be after the response
        rows.cancel()


async def _pieces(page: bytes) -> AsyncIterator[bytes]:
    for first in range(0, len(page), _PIECE):
        yield page[first : first + _PIECE]
        await asyncio.sleep(0)  # so that uvicorn notices a client that has left


async def _on_refusal(request: Request, error: HTTPException) -> Response:
    message = error.detail
    if error.status_code == 404 and message == "Not Found":
        message = "no such path; use GET / or /health, or POST /classify"
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"this path does not take {request.method}; use {allowed}"
    return _refusal(error.status_code, message, dict(error.headers or {}))


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return Response()  # nobody receives it


async def _on_error(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    # uvicorn closes the connection after an error.
    return _refusal(
        500, "internal server error; the server's log has the details", {"Connection": "close"}
    )


_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_ENDING_SECONDS = 1  # what requests get to finish when the server ends


def listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens; InputError if the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
        # For its connections: else a client waits 40 ms for the body that follows the head. asyncio
        # sets it only if the socket was made with TCP's protocol number.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InputError(
                f"port {port} of {host}: {reason}; name another with --port, or 0 for any"
            ) from error
        raise InputError(f"--host {host}: {reason}") from error


def server_of(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """Return a server of an application; `run(sockets=[listener(...)])` serves until a signal."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # the application logs its errors itself
        access_log=False,
        proxy_headers=False,
        server_header=False,
        workers=1,
        backlog=limits.clients,
        h11_max_incomplete_event_size=limits.headers,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # it takes fractions
        timeout_graceful_shutdown=_ENDING_SECONDS,
    )
    return _Server(config)


class _Connection(H11Protocol):
    """A connection that is closed if nothing arrives, as uvicorn does after an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )


class _Server(uvicorn.Server):
    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_on_loop_error)
        await super().serve(sockets)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors about the limit of open files: the loop accepts the connections later."""
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in _OUT_OF_FILES):
        loop.default_exception_handler(context)
