"""The server in this process, on a port of its own, with a function in place of a model."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import httpx

from mlstm_sentiment.server.application import Address, Limits, application, listener, serving
from mlstm_sentiment.server.batching import Batcher

TOKEN = "the-token"


class Served(NamedTuple):
    """A server: where it listens, a client that has its token, and its queue."""

    address: Address
    client: httpx.Client
    batcher: Batcher

    def post(self, texts, sides=None, **options):
        asked = {} if sides is None else {"sides": sides}
        return self.client.post("/classify", json={"texts": texts, **asked}, **options)


def measured(texts, sides=False, meanwhile=None):
    """The answers: the length of each text."""
    return [{"length": len(text)} for text in texts]


def lengths(texts):
    """The tokens: as many as characters."""
    return list(map(len, texts))


@contextmanager
def served(classify=measured, page=b"page", token=TOKEN, limits=Limits()):  # noqa: B008
    """Serve; yield the server."""
    stopped = threading.Event()
    with listener("127.0.0.1", 0) as listening:
        address = Address(*listening.getsockname())
        batcher = Batcher(classify, lengths, limits.tokens)
        app = application(page, batcher.submit, address, token, limits)
        place = f"http://{address.host}:{address.port}"
        headers = {"Authorization": f"Bearer {token}"}
        with (
            serving(app, listening, limits) as is_serving,
            ThreadPoolExecutor(1) as threads,
            httpx.Client(base_url=place, headers=headers, timeout=60, trust_env=False) as client,
        ):
            running = threads.submit(batcher.run, lambda: is_serving() and not stopped.is_set())
            try:
                yield Served(address, client, batcher)
            finally:
                stopped.set()
    running.result()
