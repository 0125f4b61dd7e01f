"""The page of demo, served on this machine alone, until something ends it."""

import errno
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import urllib.request
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from model import save_model
from model.commands import program, serve
from model.commands.command_line import dispatch
from model.errors import InputError
from model.text.profiles import text_profile
from tests.support.runs import piped


def reaches(host, port):
    """Say whether a server answers at another address of this machine; Linux has all of 127/8."""
    if sys.platform != "linux":
        return False
    with socket.socket() as client:
        return client.connect_ex((host, port)) != errno.ECONNREFUSED


def test_the_page_is_served_until_ctrl_c(small_model, tmp_path):
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    command = ("-m", "model", "serve", "--model", tmp_path / "m", "--port", "0")
    with piped(*command) as (process, _, output):
        address = output.readline().decode().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as response:
            assert b"The sentiment neuron" in response.read()
        reached = reaches("127.0.0.2", urlsplit(address).port)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert (process.returncode, process.errors.read_text()) == (0, "")
    assert not reached


def test_a_port_is_a_port():
    with pytest.raises(InputError, match="--port is 70000"):
        dispatch(["serve", "--port", "70000"])


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} .* in use; name another with --port"):
            dispatch(["serve", "--port", str(port)])


@contextmanager
def serving(folder, handler=serve.Handler):
    """A server of a folder, and what is set once a connection has ended."""
    left = threading.Event()

    class Server(serve.PageServer):
        def shutdown_request(self, request):
            super().shutdown_request(request)
            left.set()

    with Server(folder, 0, handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, left
        finally:
            server.shutdown()
            thread.join()


def test_a_browser_that_goes_away_leaves_no_traceback(tmp_path, capfd):
    (tmp_path / "index.html").write_bytes(bytes(20_000_000))  # more than the sockets hold
    with serving(tmp_path) as (server, left):
        with socket.create_connection(server.server_address) as browser:
            browser.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert browser.recv(100).startswith(b"HTTP/1.0 200")
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
        assert left.wait(60)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("request_sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_connection_that_rests_is_closed(tmp_path, capfd, request_sent):
    """Before its request, or in the middle of the answer, which it does not read."""
    (tmp_path / "index.html").write_bytes(bytes(20_000_000))

    class Impatient(serve.Handler):
        timeout = serve.Handler.timeout / 100

    with (
        serving(tmp_path, Impatient) as (server, left),
        socket.create_connection(server.server_address) as browser,
    ):
        browser.sendall(request_sent)
        assert left.wait(60)
    assert capfd.readouterr().err == ""


def test_it_answers_for_its_page_alone_and_by_its_own_name(tmp_path, capfd):
    (tmp_path / "index.html").write_text("page")
    (tmp_path / "secret").write_text("secret")

    def status(path, host, method="GET"):
        client = HTTPConnection(*server.server_address)
        client.request(method, path, headers={"Host": host})
        with client.getresponse() as response:
            assert response.status != 200 or method == "HEAD" or response.read() == b"page"
        client.close()
        return response.status

    with serving(tmp_path) as (server, _):
        local = f"127.0.0.1:{server.server_port}"
        for path in ("/", "/index.html", "/?x=1"):
            for host in (local, "localhost", "LOCALHOST:9000"):  # as through a tunnel
                assert status(path, host) == status(path, host, "HEAD") == 200
        for path in ("/%00", "/secret", "/..", "/index.html/", "/%2e", "*"):
            assert status(path, local) == status(path, local, "HEAD") == 404
        # A name that leads here, by which a foreign page would read the model.
        for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1.evil", "["):
            assert status("/", host) == status("/", host, "HEAD") == 403
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_and_removes_its_folder(tmp_path, monkeypatch, name):
    number = getattr(signal, name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(serve, "write_page", lambda options, path: path.write_text("page"))
    monkeypatch.setattr(
        serve.ThreadingHTTPServer, "serve_forever", lambda server: os.kill(os.getpid(), number)
    )

    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit, match=r"^0$"):
            program.run(lambda: dispatch(["serve", "--port", "0"]))
    finally:
        signal.signal(number, before)
    assert list(tmp_path.iterdir()) == []
