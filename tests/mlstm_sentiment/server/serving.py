"""The server in this process, on a port of its own, with a function in place of a model."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import httpx

from mlstm_sentiment.server.application import Address, Limits, application, listener, server_of

TOKEN = "the-token"


class Served(NamedTuple):
    """A server: where it listens, and a client that has its token."""

    address: Address
    client: httpx.Client

    def post(self, texts, sides=None, **options):
        asked = {} if sides is None else {"sides": sides}
        return self.client.post("/classify", json={"texts": texts, **asked}, **options)

    def post_alone(self, texts):
        """Post by a client of its own, which outlives the server."""
        url, headers = self.client.base_url.join("/classify"), self.client.headers
        with httpx.Client(headers=headers, timeout=60, trust_env=False) as client:
            return client.post(url, json={"texts": texts})


def measured(texts, sides=False, advance=None):
    """The answers: the length of each text."""
    return [{"length": len(text)} for text in texts]


@contextmanager
def served(answer=measured, page=b"page", token=TOKEN, limits=Limits()):  # noqa: B008
    """Serve; yield the server."""
    with listener("127.0.0.1", 0) as listening:
        address = Address(*listening.getsockname())
        server = server_of(application(page, answer, address, token, limits), limits)
        place = f"http://{address.host}:{address.port}"
        headers = {"Authorization": f"Bearer {token}"}
        with (
            httpx.Client(base_url=place, headers=headers, timeout=60, trust_env=False) as client,
            ThreadPoolExecutor(1) as threads,
        ):
            running = threads.submit(server.run, [listening])
            try:
                yield Served(address, client)
            finally:
                server.should_exit = True
    running.result()
