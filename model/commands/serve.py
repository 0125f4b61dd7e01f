"""Show the page of `demo` in a browser, from a server that only this machine can reach.

mlstm-sentiment serve
mlstm-sentiment serve --model runs/tour --port 8001
"""

import errno
import sys
from argparse import Namespace
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import InputError
from .command_line import Parser
from .demo import add_page, write_page

HOST = "127.0.0.1"  # no other machine can reach it
# Under another name for this host, a foreign page could read the model in the visitor's browser.
NAMES = (HOST, "localhost")
PATHS = ("/", "/index.html")


class Handler(SimpleHTTPRequestHandler):
    """Serves one page, and writes no line for each request."""

    timeout = 30  # seconds without a byte: an idle connection would keep its thread

    def send_head(self) -> Any:
        """Begin the answer; return the page as a file, None where it is refused."""
        host = self.headers.get("Host", HOST).partition(":")[0]
        if host.lower() not in NAMES:
            self.send_error(403, f"This server is {' or '.join(NAMES)}")
        elif self.path.partition("?")[0] not in PATHS:
            self.send_error(404)
        else:
            return super().send_head()
        return None

    def log_message(self, *words: object) -> None:
        """Say nothing."""


class PageServer(ThreadingHTTPServer):
    """Serves this machine; a browser that disconnects or stalls is no error."""

    def __init__(self, folder: Path, port: int, handler: type[Handler] = Handler):
        try:
            super().__init__((HOST, port), partial(handler, directory=str(folder)))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise InputError(
                f"port {port} of {HOST}: {error.strerror}; name another with --port, or 0 for any"
            ) from error

    def handle_error(self, request: object, client_address: object) -> None:
        """Print the traceback of any other error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_page(parser)
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free one")


def run(options: Namespace) -> None:
    """Write the page and serve it until Ctrl-C, SIGTERM or the end of the terminal."""
    if not 0 <= options.port < 1 << 16:
        raise InputError(f"--port is {options.port}; it must be from 0 to 65535")
    with TemporaryDirectory() as folder, PageServer(Path(folder), options.port) as server:
        write_page(options, Path(folder) / "index.html")
        print(f"http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        with suppress(KeyboardInterrupt):  # the other signals raise it too: program.run
            server.serve_forever()
