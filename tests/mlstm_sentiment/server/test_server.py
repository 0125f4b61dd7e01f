"""The server with a function in place of a model: answers, refusals, limits, connections."""

import json
import logging
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import httpx
import pytest

from mlstm_sentiment.server import application
from mlstm_sentiment.server.answers import TooManyTokens
from mlstm_sentiment.server.application import HEADERS, Address, Limits
from tests.mlstm_sentiment.server.serving import TOKEN, measured, served

LONG = ["long " * 1_000]
LARGE = bytes(20_000_000)  # a page of more than the sockets hold


class Gate:
    """A classifier that records the texts of each call, and answers once it is opened.

    `ended` are the texts of the calls that were stopped before.
    """

    def __init__(self):
        self.calls, self.ended, self.opened = [], [], threading.Event()

    def __call__(self, texts, sides, advance):
        self.calls.append(texts)
        while not self.opened.wait(0.01):
            try:
                advance(1)
            except Exception:
                self.ended.append(texts)
                raise
        return measured(texts)


def until(holds):
    """Wait until something holds."""
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    pytest.fail("it never holds")


@pytest.fixture(scope="module")
def server():
    with served() as server:
        yield server


def refused(response, status, words):
    """Assert that a response is an error: its status, one key with these words, our headers."""
    assert response.status_code == status, response.text
    (key,) = response.json()
    assert key == "error"
    assert words in response.json()["error"]
    has_our_headers(response)


def has_our_headers(response):
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "server" not in response.headers


def test_without_a_page_texts_get_their_rows():
    with served(page=None) as server:
        refused(server.client.get("/"), 404, "this model has no page; use POST /classify")
        assert server.post(["good"]).json() == {"results": [{"length": 4}]}


def test_two_sides_are_answered_only_to_those_who_ask():
    calls = []

    def classify(texts, sides, advance):
        calls.append((texts, sides))
        return [{"sides": sides} for _ in texts]

    with served(classify) as server:
        asked = {"results": [{"sides": True}], "sides": True}
        assert server.post(["good"], sides=True).json() == asked
        assert server.post(["bad"]).json() == {"results": [{"sides": False}]}
    assert calls == [(["good"], True), (["bad"], False)]


def test_texts_get_their_rows_and_the_page_is_there(server):
    response = server.post(["good", None, "\N{GRINNING FACE}"])
    assert response.json() == {"results": [{"length": 4}, {"length": 0}, {"length": 1}]}
    has_our_headers(response)
    assert server.post([]).json() == {"results": []}
    for path in ("/", "/index.html", "/?x=1"):
        page = server.client.get(path)
        assert (page.status_code, page.content) == (200, b"page")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        has_our_headers(page)
        head = server.client.head(path)
        assert (head.content, head.headers["content-length"]) == (b"", "4")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"9" * 5_000, "not JSON"),
        (b"9", "must be an object"),
        (b'["good"]', "must be an object"),
        (b"{}", "must be a list of strings"),
        (b'{"texts": "good"}', "must be a list of strings"),
        (b'{"texts": ["good", 1]}', "must be a list of strings"),
        (b'{"texts": ["good", "a\\ud800b"]}', "text 2: a lone surrogate"),
        (b'{"text": ["good"]}', "unknown key 'text'; did you mean 'texts'?"),
        (b'{"texts": ["good"], "sides": 1}', '"sides" must be true or false'),
    ],
)
def test_a_body_that_is_wrong_is_refused(server, body, words):
    headers = {"Content-Type": "application/json"}
    refused(server.client.post("/classify", content=body, headers=headers), 400, words)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_another_type_than_json_is_refused(server, kind):
    """A foreign page may send these types without a preflight request."""
    headers = {"Content-Type": kind} if kind else {}
    body = b'{"texts": []}'
    response = server.client.post("/classify", content=body, headers=headers)
    refused(response, 415, "send application/json")
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert server.client.post("/classify", content=body, headers=headers).status_code == 200


def test_other_paths_and_methods_are_refused(server):
    for path in ("/%00", "/secret", "/..", "/index.html/", "/classify/", "/%2e", "//", "*"):
        client = HTTPConnection(server.address.host, server.address.port, timeout=60)
        client.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        with client.getresponse() as response:
            assert (response.status, list(json.loads(response.read()))) == (404, ["error"])
        client.close()
    for method, path, allowed in (
        ("GET", "/classify", "POST"),
        ("OPTIONS", "/classify", "POST"),  # a foreign page's browser asks thus
        ("POST", "/", "GET, HEAD"),
    ):
        response = server.client.request(method, path)
        refused(response, 405, method)
        assert sorted(response.headers["allow"].split(", ")) == allowed.split(", ")


def in_pieces(size):
    """A body whose length is not announced."""
    for _ in range(size >> 10):
        yield bytes(1 << 10)


def test_what_is_too_long_is_refused():
    def answer(texts, sides, advance):
        if "long" in texts:
            raise TooManyTokens("text 2 has 11 tokens; at most 10 a text")
        return measured(texts)

    with served(answer, limits=Limits(body=20_000, texts=3)) as server:
        headers = {"Content-Type": "application/json"}
        refused(server.post(["good"] * 4), 413, "4 texts; at most 3 a request")
        refused(server.post(["good", "long"]), 413, "text 2 has 11 tokens; at most 10 a text")
        for content in (b" " * 20_001, in_pieces(1 << 20)):
            response = server.client.post("/classify", content=content, headers=headers)
            refused(response, 413, "at most 20,000 bytes")
        assert server.post(["x" * 10] * 3).status_code == 200


def test_only_the_exact_host_and_port_are_this_server(server):
    port = server.address.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
        assert server.client.get("/", headers={"Host": host}).status_code == 200
    for host in (
        *("localhost", "127.0.0.1", f"localhost:{port + 1}", f"localhost:{port}0", "", "["),
        *("localhost:x.evil.example", f"localhost:{port}.evil.example", "127.0.0.1.evil.example"),
        *(f"evil.example:{port}", f"127.0.0.2:{port}", f"localhost.:{port}", f"x@localhost:{port}"),
    ):
        refused(server.client.get("/", headers={"Host": host}), 403, "not the address")
        refused(server.post(["good"], headers={"Host": host}), 403, "not the address")


def test_no_foreign_page_names_a_server_that_other_machines_reach():
    address = Address("0.0.0.0", 8000)
    near = ("sentiment", "sentiment:8000", "localhost:9000", "10.0.0.7:80", "[fe80::1]:8000")
    foreign = ("evil.example", "evil.example:8000", "localhost:x.evil.example", "", "[")
    assert all(address.is_named_by(host, has_token=False) for host in near)
    assert not any(address.is_named_by(host, has_token=False) for host in foreign)
    assert address.is_named_by("sentiment.example", has_token=True)
    assert Address("127.0.0.1", 80).is_named_by("localhost", has_token=False)
    assert Address("::1", 8000).is_named_by("[::1]:8000", has_token=False)


def test_the_token_is_asked_for_everywhere(server):
    place = str(server.client.base_url)
    with httpx.Client(base_url=place, trust_env=False) as client:
        for path in ("/", "/classify", "/nothing"):
            refused(client.get(path), 401, "no token")
        for wrong in ("", "?token=", f"?token={TOKEN[:-1]}", f"?token={TOKEN}x", "?token=%C3%A4"):
            refused(client.get(f"/{wrong}"), 401, "wrong")
        for wrong in (TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer x", b"Bearer \xe4"):
            refused(client.get("/", headers={"Authorization": wrong}), 401, "Bearer TOKEN")
        assert client.get(f"/?token={TOKEN}").content == b"page"
        answer = client.post(f"/classify?token={TOKEN}", json={"texts": ["good"]})
        assert answer.json() == {"results": [{"length": 4}]}


def test_headers_have_a_limit():
    with served(limits=Limits(headers=500)) as server:
        refused(server.client.get("/", headers={"X-Long": "x" * 500}), 431, "at most 500 bytes")
        refused(server.client.get("/?" + "x" * 500), 431, "at most 500 bytes")
        assert server.client.get("/").status_code == 200


def test_health_is_told_to_everyone_also_at_the_limit():
    gate = Gate()
    with served(gate, limits=Limits(clients=2)) as server, ThreadPoolExecutor(2) as clients:
        others = [clients.submit(server.post, LONG) for _ in range(2)]
        until(lambda: sum(map(len, gate.calls)) == 2)
        place = f"http://{server.address.host}:{server.address.port}/health"
        answer = httpx.get(place, headers={"Host": "probe.example"}, trust_env=False)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        has_our_headers(answer)
        refused(httpx.post(place, trust_env=False), 405, "use GET")
        gate.opened.set()
        assert [other.result().status_code for other in others] == [200, 200]


def test_a_short_text_does_not_wait_for_the_long_ones_of_others():
    gate = Gate()

    def answer(texts, sides, advance):
        return gate(texts, sides, advance) if texts[0] == LONG[0] else measured(texts)

    with served(answer) as server, ThreadPoolExecutor(6) as clients:
        others = [clients.submit(server.post, LONG) for _ in range(6)]
        until(lambda: gate.calls)
        assert server.post(["short"]).json() == {"results": [{"length": 5}]}
        assert not any(other.done() for other in others)
        gate.opened.set()
        assert {other.result().status_code for other in others} == {200}


def test_the_end_stops_what_is_computed_and_says_so(monkeypatch):
    monkeypatch.setattr(application, "_ENDING_SECONDS", 0.1)
    gate = Gate()
    with ThreadPoolExecutor(1) as clients:
        with served(gate) as server:
            other = clients.submit(server.post_alone, ["long"])
            until(lambda: gate.calls)
        refused(other.result(), 503, "the server is shutting down")
    until(lambda: gate.ended == [["long"]])


def test_the_text_of_a_client_that_leaves_ends():
    gate = Gate()
    with served(gate) as server:
        with connected(server) as client:
            body = b'{"texts": ["left"]}'
            client.sendall(request_of(server, len(body)) + body)
            until(lambda: gate.calls)
        until(lambda: gate.ended == [["left"]])
        gate.opened.set()
        assert server.post(["next"]).status_code == 200


def test_a_request_that_takes_too_long_gets_an_error_and_the_next_is_answered():
    gate = Gate()
    with served(gate, limits=Limits(seconds=0.5, clients=1)) as server:
        refused(server.post(["slow"]), 503, "no answer in 0.5 seconds")
        until(lambda: gate.ended == [["slow"]])
        gate.opened.set()
        assert server.post(["next"]).status_code == 200


def test_a_body_that_does_not_arrive_is_not_waited_for():
    with served(limits=Limits(seconds=0.2)) as server, connected(server) as client:
        client.sendall(request_of(server, 100))
        assert client.recv(100).startswith(b"HTTP/1.1 503")


def test_too_many_requests_at_the_same_time_are_refused():
    gate = Gate()
    with served(gate, limits=Limits(clients=2)) as server, ThreadPoolExecutor(2) as clients:
        others = [clients.submit(server.post, LONG) for _ in range(2)]
        until(lambda: sum(map(len, gate.calls)) == 2)
        refused(server.post(["third"]), 503, "busy")
        gate.opened.set()
        assert [other.result().status_code for other in others] == [200, 200]
        assert server.post(["fourth"]).status_code == 200


def test_an_error_of_the_model_is_logged_and_not_shown(caplog):
    def broken(texts, sides, advance):
        raise ValueError("a secret of the model")

    with served(broken) as server:
        response = server.post(["good"])
        refused(response, 500, "log has the details")
        assert "secret" not in response.text
        assert server.client.get("/").status_code == 200
    assert "a secret of the model" in caplog.text


def connected(server):
    return socket.create_connection((server.address.host, server.address.port), timeout=60)


def request_of(server, length):
    """The head of a request whose body has this length."""
    lines = (
        "POST /classify HTTP/1.1",
        f"Host: 127.0.0.1:{server.address.port}",
        f"Authorization: Bearer {TOKEN}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


def page_request(server):
    return f"GET /?token={TOKEN} HTTP/1.1\r\nHost: localhost:{server.address.port}\r\n\r\n".encode()


def test_what_is_not_http_is_refused(server, capfd):
    for words in (b"\x16\x03\x01garbage\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with connected(server) as client:
            client.sendall(words)
            assert client.recv(10_000).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert server.post(["good"]).status_code == 200
    assert capfd.readouterr().err == ""


def test_clients_that_go_away_leave_no_traceback(capfd, caplog):
    with served(page=LARGE) as server:
        for request in (page_request(server), request_of(server, 100) + b"{"):
            with connected(server) as client:
                client.sendall(request)
                if request.startswith(b"GET"):
                    assert client.recv(100).startswith(b"HTTP/1.1 200")
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert server.post(["good"]).status_code == 200
    assert capfd.readouterr().err == caplog.text == ""


@pytest.mark.parametrize("path", [None, "/nothing", "/"])  # the page, which is not received
def test_a_connection_that_rests_is_closed(path, capfd):
    limits = Limits(idle_seconds=0.2, seconds=0.2)
    with served(page=LARGE, limits=limits) as server, connected(server) as client:
        if path is not None:
            client.sendall(page_request(server).replace(b"/?", f"{path}?".encode()))
        if path == "/":
            time.sleep(1)
        received = 0
        while piece := received_from(client):
            received += len(piece)
        assert received < len(LARGE)
    assert capfd.readouterr().err == ""


def received_from(client):
    try:
        return client.recv(1 << 20)
    except ConnectionResetError:
        return b""


def test_a_slow_client_that_receives_gets_the_whole_page():
    with served(page=LARGE, limits=Limits(idle_seconds=1.0, seconds=1.0)) as server:
        with server.client.stream("GET", "/") as response:
            pieces = 0
            for number, piece in enumerate(response.iter_bytes(1 << 20)):
                pieces += len(piece)
                if number < 10:
                    threading.Event().wait(0.15)
        assert pieces == len(LARGE)


def test_serving_leaves_the_log_as_it_is():
    def state():
        root = logging.getLogger()
        return root.level, list(root.handlers)

    before = state()
    with served() as server:
        assert server.post(["good"]).status_code == 200
        assert state() == before
    assert state() == before
