"""Serve a model to this machine: its page for a browser, and POST /classify for programs.

mlstm-sentiment serve
mlstm-sentiment serve --model runs/tour --port 8001
"""

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

from ..bounds import Bound
from ..errors import InputError
from ..reading.no_answer import answered_text
from .demo import PageOptions

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
        from ..server.application import Address, Limits, application, listener, serving
        from ..server.batching import Batcher
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        raise InputError(f'serve needs {name}: pip install "mlstm-sentiment[serve]"') from error

    with listener(options.host, options.port) as listening:
        address = Address(options.host, listening.getsockname()[1])
        page, classifier = _load(options)
        limits = Limits()
        if classifier is None:
            batcher, submit, has_sides = Batcher(lambda *_: [], lambda _: [], 0), None, False
        else:
            encode, has_sides = classifier.encode, classifier.fitted.is_binary
            batcher = Batcher(
                _rows_of_texts(classifier),
                lambda texts: list(map(len, encode(texts).tokens)),
                limits.tokens,
            )
            submit = batcher.submit
        token = None if options.no_token else secrets.token_urlsafe(16)
        app = application(page, submit, address, token, limits, has_sides=has_sides)
        with serving(app, listening, limits) as is_serving:
            host = {"0.0.0.0": HOST, "::": "::1"}.get(str(ip), options.host)
            place = f"[{host}]" if ":" in host else host
            query = "" if token is None else f"?token={token}"
            print(f"http://{place}:{address.port}/{query} (Ctrl-C ends it)", flush=True)
            with suppress(KeyboardInterrupt):  # the other signals raise it too: program.run
                batcher.run(is_serving)


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
    if fitted is None:
        return page, None
    classifier = SentimentClassifier(loaded, fitted).fit()
    _rows_of_texts(classifier)(["The first text takes longer."], False)
    return page, classifier


def _rows_of_texts(
    classifier: "SentimentClassifier",
) -> Callable[..., list[dict[str, Any]]]:
    """Return a function from texts to what `classify` adds to their rows.

    Its second argument: whether the label is to be one of two sides. Its third: a function that is
    called with the number of tokens just processed; it may classify other texts.
    """
    from ..head.answers import added_names

    def rows(
        texts: list[str], sides: bool, meanwhile: Callable[[int], object] | None = None
    ) -> list[dict[str, Any]]:
        answered, names = (
            list(map(answered_text, texts)),
            added_names(classifier.fitted, sides=sides),
        )
        return classifier.results(answered, names, sides=sides, advance=meanwhile)

    return rows
