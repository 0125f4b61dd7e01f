"""How the server listens: a socket, uvicorn in a thread, and an end to idle connections."""

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InputError
from .application import HEADERS, JSON_TYPE, Limits

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
