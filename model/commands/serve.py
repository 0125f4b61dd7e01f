"""Show the model itself in a browser: the page of `demo`, from a server of this machine alone.

mlstm-sentiment serve
mlstm-sentiment serve --model runs/tour --port 8001
"""

from argparse import Namespace
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import InputError
from .command_line import Parser
from .demo import add_page, write_page

HOST = "127.0.0.1"  # nobody else on the network reaches it


class Handler(SimpleHTTPRequestHandler):
    """Serves files, and writes no line for each."""

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_page(parser)
    parser.add_argument("--port", type=int, default=8000, help="0 takes any that is free")


def run(options: Namespace) -> None:
    """Write the page and serve it until Ctrl-C."""
    if not 0 <= options.port < 1 << 16:
        raise InputError(f"--port is {options.port}; it must be from 0 to 65535")
    with (
        TemporaryDirectory() as folder,
        ThreadingHTTPServer((HOST, options.port), partial(Handler, directory=folder)) as server,
    ):
        write_page(options, Path(folder) / "index.html")
        print(f"http://{HOST}:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
