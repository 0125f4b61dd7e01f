"""Serve a model to this machine: its page for a browser, and POST /classify for programs.

mlstm-sentiment serve
mlstm-sentiment serve --model runs/tour --port 8001
"""

import logging
import secrets
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

from ..bounds import Bound
from ..errors import TIME_IS_UP, InputError
from .demo import PageOptions
from .program import handled, signals

if TYPE_CHECKING:
    from ..head.sentiment_classifier import SentimentClassifier

HOST = "127.0.0.1"  # no other machine can reach it

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(PageOptions):
    """Serve a model to this machine: its page for a browser, and POST /classify for programs."""

    port: Annotated[int, Bound(min=0, max=65535)] = 8000
    """The port to listen on; 0 takes any free one."""
    host: str = HOST
    """The IP address to listen on; 0.0.0.0, for a container, lets other machines in."""
    no_token: bool = False
    """Answer everyone who reaches the port, not only those who know the printed address."""


def run(options: Options) -> None:
    """Serve until Ctrl-C, SIGTERM or the end of the terminal."""
    try:
        ip = ip_address(options.host)
    except ValueError as error:
        raise InputError(f"--host is {options.host}; it must be an IP address") from error
    try:
        from ..server.application import Address, Limits, application, listener, server_of
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise InputError(f'serve needs {name}: pip install "mlstm-sentiment[serve]"') from error
    from ..server.answers import rows_of_texts

    limits = Limits()
    with listener(options.host, options.port) as listening:
        address = Address(options.host, listening.getsockname()[1])
        page, classifier = _load(options)
        answer, has_sides = None, False
        if classifier is not None:
            answer = partial(rows_of_texts, classifier, limits.tokens)
            has_sides = classifier.fitted.is_binary
            answer(["The first text takes longer."], False)
        token = None if options.no_token else secrets.token_urlsafe(16)
        app = application(page, answer, address, token, limits, has_sides=has_sides)
        server = server_of(app, limits)
        host = {"0.0.0.0": HOST, "::": "::1"}.get(str(ip), options.host)
        place = f"[{host}]" if ":" in host else host
        query = "" if token is None else f"?token={token}"
        # Ctrl-C and SIGTERM are uvicorn's. The handlers of `program.run` for others raise
        # KeyboardInterrupt, which uvicorn would take for an error of a request that just runs.
        names = ("SIGHUP", *TIME_IS_UP)
        others = [number for number in signals(names) if callable(signal.getsignal(number))]
        with suppress(KeyboardInterrupt), handled(others, server.handle_exit):
            print(f"http://{place}:{address.port}/{query} (Ctrl-C ends it)", flush=True)
            server.run(sockets=[listening])


def _load(options: Options) -> "tuple[bytes | None, SentimentClassifier | None]":
    """Return a model's page and its classifier.

    The page is None if it cannot compute the model. Raises InputError if there is nothing to serve,
    or --neuron without effect.
    """
    from ..demo import check_computable, demo_page
    from ..head.sentiment_classifier import SentimentClassifier

    loaded, fitted = options.load()
    try:
        check_computable(loaded)
    except InputError as error:
        if fitted is None or options.neuron is not None:
            raise
        log.warning("%s. There is no page; POST /classify works", error)
        page = None
    else:
        page = demo_page(loaded, fitted, options.title, unit=options.neuron).encode()
    return page, None if fitted is None else SentimentClassifier(loaded, fitted).fit()
