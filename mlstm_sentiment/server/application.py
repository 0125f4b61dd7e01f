"""What the server answers, and how it listens.

It answers with the page of a model, POST /classify, and errors as JSON. It listens with uvicorn, in
a thread, and ends idle connections.
"""

import asyncio
import errno
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import h11
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
from .batching import MOST_TEXTS, AnswerRow, ServerClosed, TooManyTokens

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
    texts: int = MOST_TEXTS
    tokens: int = 10_000  # of a text
    headers: int = 1 << 14  # bytes, with the address
    seconds: float = 60.0  # of a request
    clients: int = 64  # requests at the same time, and connections
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
            await app(scope, receive, send_with_headers)
        finally:
            self._clients -= 1

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
    submit: Callable[[Sequence[str], bool], "Future[list[AnswerRow]]"] | None,
    address: Address,
    token: str | None,
    limits: Limits,
    *,
    has_sides: bool = True,
) -> ASGIApp:
    """Return the ASGI application.

    page: None if it cannot compute the model. submit: from texts, and whether the label is to be
    one of two sides, to the future of their rows; None if the model has no classifier. token:
    required in every request, if not None. has_sides: whether its classes are two.
    """

    async def show_page(request: Request) -> Response:
        if page is None:
            raise HTTPException(404, "this model has no page; use POST /classify")
        length = {"Content-Length": str(len(page))}
        return StreamingResponse(_pieces(page), headers=length, media_type="text/html")

    async def classify(request: Request) -> Response:
        if submit is None:
            raise HTTPException(404, f"this model has no classifier. {HOW_TO_FIT}")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON_TYPE:
            raise HTTPException(415, f"the Content-Type is {kind or 'absent'}; send {JSON_TYPE}")
        try:
            async with asyncio.timeout(limits.seconds):
                texts, sides = _question_in(await _body(request, limits.body), limits)
                if sides and not has_sides:
                    raise HTTPException(400, "sides is for a model of two classes; leave it out")
                rows = await _unless_left(request, submit(texts, sides))
        except TimeoutError:
            seconds = f"{limits.seconds:g} seconds"
            raise HTTPException(503, f"no answer in {seconds}; send fewer texts") from None
        except TooManyTokens as error:
            raise HTTPException(413, str(error)) from None
        except ServerClosed:
            raise HTTPException(503, "the server is shutting down") from None
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
    """Return the rows; cancel them and raise ClientDisconnect if the client leaves."""

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


_ENDING_SECONDS = 2  # what requests get to finish when the server ends
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)


def listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens; InputError if the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise InputError(
                f"port {port} of {host}: {reason}; name another with --port, or 0 for any"
            ) from error
        raise InputError(f"--host {host}: {reason}") from error


@contextmanager
def serving(app: ASGIApp, listening: socket.socket, limits: Limits) -> Iterator[Callable[[], bool]]:
    """Serve an application in a thread; yield whether it still does.

    In a thread, uvicorn leaves the signals to the caller.
    """
    config = uvicorn.Config(
        app,
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
        limit_concurrency=limits.clients,
        timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # it takes fractions
        timeout_graceful_shutdown=_ENDING_SECONDS,
    )
    server = uvicorn.Server(config)

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(_on_loop_error)
        await server.serve(sockets=[listening])

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lambda: asyncio.run(serve()))
        try:
            yield lambda: not running.done()
        finally:
            server.should_exit = True
    running.result()


class _Connection(H11Protocol):
    """A connection that is closed if it stalls, or if it is idle and another needs its place."""

    def __init__(self, *settings: Any, **options: Any):
        super().__init__(*settings, **options)
        self._most = self.limit_concurrency or 1
        self.limit_concurrency = None  # a refusal of uvicorn's is not JSON; _Guard refuses
        self._stalled: asyncio.TimerHandle | None = None
        self._last_active = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; close the connection that has been idle longest if there are too many."""
        others = [
            each
            for each in self.connections
            if isinstance(each, _Connection) and not each.transport.is_closing()
        ]
        idle = [each for each in others if each.is_idle]
        if len(others) >= self._most and idle:
            min(idle, key=lambda each: each._last_active).timeout_keep_alive_handler()
        # Without TCP_NODELAY, a client would wait 40 ms for the body that follows the head. asyncio
        # sets it only if the socket was made with TCP's protocol number.
        with suppress(OSError):  # the client may have left
            plain = transport.get_extra_info("socket")
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._wait_for_bytes()

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Take bytes; wait for more if they are not a whole request."""
        super().data_received(data)
        if self.is_idle and not self.transport.is_closing():
            self._wait_for_bytes()

    def _wait_for_bytes(self) -> None:
        self._last_active = self.loop.time()
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def pause_writing(self) -> None:
        """Give a client that does not receive its answer a limited time to do so."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def send_400_response(self, msg: str) -> None:
        if not self.is_idle and self.cycle.response_started:
            return self.transport.close()
        headers = {**HEADERS, "Content-Type": JSON_TYPE, "Connection": "close"}
        events = (
            h11.Response(status_code=400, headers=list(headers.items()), reason=b"Bad Request"),
            h11.Data(data=json.dumps({"error": msg}).encode()),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors about the limit of open files: the loop accepts the connections later."""
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in _OUT_OF_FILES):
        loop.default_exception_handler(context)
