"""The server with a function in place of a model: answers, refusals, limits, connections."""

import json
import logging
import signal
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import httpx
import pytest

from mlstm_sentiment.server import batching
from mlstm_sentiment.server.application import HEADERS, Address, Limits
from mlstm_sentiment.server.batching import MOST_TEXTS
from tests.mlstm_sentiment.server.serving import TOKEN, lengths, measured, served

LARGE = bytes(20_000_000)  # a page of more than the sockets hold


@pytest.fixture(autouse=True)
def _quick_to_end(monkeypatch):
    monkeypatch.setattr(batching, "POLL_SECONDS", 0.02)


class Gate:
    """A classifier that waits until it may begin, and records the texts of each call."""

    def __init__(self):
        self.calls, self.begun, self.opened = [], threading.Event(), threading.Event()

    def __call__(self, texts, sides=False, meanwhile=None):
        self.calls.append(texts)
        self.begun.set()
        assert self.opened.wait(60)
        return measured(texts)


def until_waiting(server, count):
    while server.batcher._queue.qsize() < count:
        time.sleep(0.001)


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

    def classify(texts, sides, meanwhile):
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
    with served(limits=Limits(body=20_000, texts=3, tokens=10)) as server:
        headers = {"Content-Type": "application/json"}
        refused(server.post(["good"] * 4), 413, "4 texts; at most 3 a request")
        refused(server.post(["good", "x" * 11]), 413, "text 2 has 11 tokens; at most 10 a text")
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
        others = [clients.submit(server.post, ["busy"])]
        assert gate.begun.wait(60)
        others.append(clients.submit(server.post, ["waiting"]))
        until_waiting(server, 1)
        place = f"http://{server.address.host}:{server.address.port}/health"
        answer = httpx.get(place, headers={"Host": "probe.example"}, trust_env=False)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        has_our_headers(answer)
        refused(httpx.post(place, trust_env=False), 405, "use GET")
        gate.opened.set()
        assert [other.result().status_code for other in others] == [200, 200]


def test_waiting_requests_are_classified_together():
    gate = Gate()
    with served(gate) as server, ThreadPoolExecutor(40) as clients:
        first = clients.submit(server.post, ["first"])
        assert gate.begun.wait(60)
        others = [clients.submit(server.post, ["x" * n] * 10) for n in range(1, 26)]
        until_waiting(server, len(others))
        gate.opened.set()
        assert first.result().json() == {"results": [{"length": 5}]}
        for n, other in enumerate(others, start=1):
            assert other.result().json() == {"results": [{"length": n}] * 10}
    assert len(gate.calls) <= 6
    assert max(map(len, gate.calls)) <= MOST_TEXTS


class Clock:
    """A classifier that takes a second for 1,000 tokens, of four texts side by side once."""

    def __init__(self, monkeypatch):
        self.calls, self.now = [], 0.0
        monkeypatch.setattr(batching.time, "perf_counter", lambda: self.now)

    def __call__(self, texts, sides=False, meanwhile=None):
        self.calls.append(texts)
        end = self.now + max(max(map(len, texts)), sum(map(len, texts)) / 4) / 1000
        while self.now < end:  # also while others are answered
            self.now = min(self.now + 0.05, end)
            meanwhile(50)
        return measured(texts)


def test_nobody_waits_long_for_the_texts_of_others(monkeypatch):
    """The longest texts in front: shorter ones are answered meanwhile, those as long in turn."""
    clock = Clock(monkeypatch)
    batcher = batching.Batcher(clock, lengths, 5_000)
    ends = {}

    def submit(name, *texts):
        job = batcher.submit(texts)
        job.add_done_callback(lambda _: ends.setdefault(name, clock.now))
        return job

    jobs = [submit(f"long {n}", "x" * 4_500) for n in range(6)]
    jobs.append(submit("many", *["x" * 300] * 100))
    jobs.append(submit("middle", "x" * 1_500))
    jobs += [submit(f"short {n}", "x" * 10) for n in range(30)]
    batcher.run(lambda: not all(job.done() for job in jobs))
    assert [len(job.result()) for job in jobs] == [*[1] * 6, 100, *[1] * 31]
    assert max(at for name, at in ends.items() if name.startswith("short")) < 1
    assert ends["middle"] < 3
    assert max(ends.values()) < 15
    assert sum(map(len, clock.calls)) == 6 + 100 + 1 + 30
    assert max(sum(map(len, texts)) for texts in clock.calls) <= 4 * 4_500


def test_what_waits_at_the_end_is_refused_and_what_was_given_up_is_left_out(monkeypatch):
    monkeypatch.setattr(batching, "SLICE_SECONDS", 0)  # slices of the least tokens
    calls = []

    def classify(texts, sides, meanwhile):
        calls.append(texts)
        if texts[0].startswith("z"):
            rows[2].cancel()  # it has more texts
        return measured(texts)

    batcher = batching.Batcher(classify, lengths, 2_000)
    rows = [
        batcher.submit(["x" * 1_000]),
        batcher.submit(["y"] * 100),
        batcher.submit(["z" * 900] * 9),
        batcher.submit(["w"]),
    ]
    rows[3].cancel()
    batcher.run(lambda: not rows[1].done() or not rows[2].cancelled())
    rows.append(batcher.submit(["x"]))
    assert len(rows[1].result()) == 100
    assert rows[2].cancelled()
    assert sum(text[0] == "z" for texts in calls for text in texts) < 9
    with pytest.raises(batching.ServerClosed):
        rows[4].result()
    assert ["w"] not in calls


def test_a_text_that_nobody_waits_for_any_more_ends():
    def endless(texts, sides, meanwhile):
        while texts == ["endless" * 50]:
            left.cancel()
            meanwhile(1)
        return measured(texts)

    batcher = batching.Batcher(endless, lengths, 2_000)
    left, other = batcher.submit(["endless" * 50]), batcher.submit(["other"])
    batcher.run(lambda: not other.done())
    assert left.cancelled()


def test_a_client_that_leaves_is_not_answered():
    gate = Gate()
    with served(gate) as server, ThreadPoolExecutor(2) as clients:
        first = clients.submit(server.post, ["first"])
        assert gate.begun.wait(60)
        with connected(server) as client:
            body = b'{"texts": ["left"]}'
            client.sendall(request_of(server, len(body)) + body)
            until_waiting(server, 1)
        threading.Event().wait(0.2)
        gate.opened.set()
        assert first.result().status_code == 200
        assert server.post(["next"]).status_code == 200
    assert ["left"] not in gate.calls


def test_a_request_that_takes_too_long_gets_an_error_and_the_next_is_answered():
    gate = Gate()
    with served(gate, limits=Limits(seconds=0.5)) as server:
        refused(server.post(["slow"]), 503, "no answer in 0.5 seconds")
        refused(server.post(["waits, and is given up"]), 503, "no answer in 0.5 seconds")
        gate.opened.set()
        for _ in range(100):
            if server.post(["next"]).status_code == 200:
                break
        assert gate.calls[:2] == [["slow"], ["next"]]


def test_a_body_that_does_not_arrive_is_not_waited_for():
    with served(limits=Limits(seconds=0.2)) as server, connected(server) as client:
        client.sendall(request_of(server, 100))
        assert client.recv(100).startswith(b"HTTP/1.1 503")


def test_too_many_requests_at_the_same_time_are_refused():
    gate = Gate()
    with served(gate, limits=Limits(clients=2)) as server, ThreadPoolExecutor(2) as clients:
        first = clients.submit(server.post, ["first"])
        assert gate.begun.wait(60)
        second = clients.submit(server.post, ["second"])
        until_waiting(server, 1)
        refused(server.post(["third"]), 503, "busy")
        gate.opened.set()
        assert first.result().status_code == second.result().status_code == 200
        assert server.post(["fourth"]).status_code == 200


def test_an_error_of_the_model_is_logged_and_not_shown(caplog):
    def broken(texts, sides, meanwhile):
        raise ValueError("a secret of the model")

    with served(broken) as server:
        response = server.post(["good"])
        refused(response, 500, "log has the details")
        assert "secret" not in response.text
        assert server.client.get("/").status_code == 200
    assert "a secret of the model" in caplog.text


def test_requests_at_the_end_are_refused():
    def ending(texts, sides, meanwhile):
        raise batching.ServerClosed

    with served(ending) as server:
        refused(server.post(["first"]), 503, "the server is shutting down")


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


def test_what_is_not_http_is_refused_as_all_else(server, capfd):
    for words in (b"\x16\x03\x01garbage\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with connected(server) as client:
            client.sendall(words)
            head, _, body = client.recv(10_000).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
            assert b"x-content-type-options: nosniff" in head.lower()
            assert list(json.loads(body)) == ["error"]
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


@pytest.mark.parametrize("part", ["nothing", "half a head", "a whole request", "a page unread"])
def test_a_connection_that_rests_is_closed(part, capfd):
    with served(page=LARGE, limits=Limits(idle_seconds=0.2)) as server, connected(server) as client:
        request = page_request(server)
        sent = {"nothing": b"", "half a head": request[:20], "a page unread": request}
        client.sendall(sent.get(part, request.replace(b"/?", b"/nothing?")))
        if part == "a page unread":
            threading.Event().wait(1)
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
    with served(page=LARGE, limits=Limits(idle_seconds=1.0)) as server:
        with server.client.stream("GET", "/") as response:
            pieces = 0
            for number, piece in enumerate(response.iter_bytes(1 << 20)):
                pieces += len(piece)
                if number < 10:
                    threading.Event().wait(0.15)
        assert pieces == len(LARGE)


def test_the_connection_that_is_idle_longest_makes_room():
    gate = Gate()
    with served(gate, limits=Limits(clients=4)) as server, ThreadPoolExecutor(1) as clients:
        busy = clients.submit(server.post, ["busy"])  # the oldest
        assert gate.begun.wait(60)
        idle = [connected(server) for _ in range(10)]
        for client in idle[:7]:
            assert client.recv(1) == b""
        for client in idle[-2:]:
            client.sendall(page_request(server))
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        for client in idle:
            client.close()
        gate.opened.set()
        assert busy.result().status_code == 200


def test_serving_leaves_signals_and_the_log_as_they_are():
    def state():
        numbers = (signal.SIGINT, signal.SIGTERM)
        root = logging.getLogger()
        return [*map(signal.getsignal, numbers), root.level, list(root.handlers)]

    before = state()
    with served() as server:
        assert server.post(["good"]).status_code == 200
        assert state() == before
    assert state() == before
