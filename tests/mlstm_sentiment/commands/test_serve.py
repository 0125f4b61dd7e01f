"""The command `serve`: a server of a model in a process of its own, until something ends it."""

import errno
import json
import re
import resource
import shlex
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from mlstm_sentiment.commands.command_line import dispatch
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.head.head_files import save_head
from mlstm_sentiment.text.profiles import text_profile
from model.inference.weights import save_model
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from tests.house.pages import PAGES, commands_of
from tests.mlstm_sentiment.head.conftest import fitted
from tests.support.runs import done, piped, run_shell

PAGE = PAGES["docs/serve.md"]


class Server(NamedTuple):
    """A running command, the line that it printed, and a client that has its token."""

    process: Any
    line: str
    client: httpx.Client

    @property
    def port(self):
        return self.client.base_url.port

    @property
    def token(self):
        return self.client.params.get("token", "")

    def classify(self, *texts):
        response = self.client.post("/classify", json={"texts": texts})
        assert response.status_code == 200, response.text
        return response.json()["results"]

    def end(self, number=signal.SIGTERM):
        """End it; return its exit code and what it has printed as errors."""
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode, self.process.errors.read_text()


@contextmanager
def serving(*options):
    """Run `serve` with these options, on a free port."""
    with piped("-m", "mlstm_sentiment", "serve", "--port", "0", *options) as (process, _, output):
        line = output.readline().decode()
        address = urlsplit(line.split()[0])
        token = {name: words[0] for name, words in parse_qs(address.query).items()}
        place = f"{address.scheme}://{address.netloc}"
        with httpx.Client(base_url=place, params=token, timeout=60, trust_env=False) as client:
            yield Server(process, line, client)
        if process.returncode is None:
            process.kill()


NEEDS_IPV6 = pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="needs IPv6")


@pytest.fixture
def plain_model(small_model, tmp_path):
    """A model without a classifier: quick to load."""
    save_model(tmp_path / "m", small_model, text_profile("openai"), {})
    return tmp_path / "m"


def reaches(host, port):
    """Return whether a server answers at another address of this machine (127/8 on Linux)."""
    if sys.platform != "linux":
        return False
    with socket.socket() as client:
        return client.connect_ex((host, port)) != errno.ECONNREFUSED


def test_a_model_without_a_classifier_has_only_its_page(plain_model):
    with serving("--model", plain_model) as server:
        assert re.fullmatch(
            r"http://127\.0\.0\.1:\d+/\?token=[\w-]{22} \(Ctrl-C ends it\)\n", server.line
        )
        assert b"The sentiment neuron" in server.client.get("/").content
        response = server.client.post("/classify", json={"texts": ["good"]})
        assert response.status_code == 404
        assert "no classifier" in response.json()["error"]
        assert not reaches("127.0.0.2", server.port)
        assert server.end(signal.SIGINT) == (0, "")


def test_a_model_that_the_page_cannot_compute_still_classifies(tmp_path):
    pytest.importorskip("anyascii")
    config = ModelConfig(hidden_size=12, embedding_size=6)
    save_model(tmp_path / "m", build_model(config, seed=3), text_profile("nvidia"), {})
    command = ["serve", "--model", str(tmp_path / "m"), "--port", "0"]
    with pytest.raises(InputError, match="its text profile is nvidia; the page knows"):
        dispatch(command)  # there is no classifier
    save_head(tmp_path / "m" / "classifier", fitted(tmp_path / "m"))
    with pytest.raises(InputError, match="the page knows"):
        dispatch([*command, "--neuron", "1"])
    with serving("--model", tmp_path / "m") as server:
        response = server.client.get("/")
        assert (response.status_code, "no page" in response.json()["error"]) == (404, True)
        assert server.classify("good")[0]["label"] in ("bad", "good", "unsure")
        code, errors = server.end()
        assert code == 0
        assert "openai, raw. There is no page; POST /classify works\n" in errors


def test_idle_connections_beyond_the_open_files_disturb_neither_a_client_nor_the_end(plain_model):
    """The other tests of this file end their servers with SIGTERM."""
    with serving("--model", plain_model) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        with ExitStack() as idle:
            for _ in range(100):
                idle.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            time.sleep(2)  # the server tries again every second
        assert server.client.get("/").status_code == 200  # which stays open
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST /classify HTTP/1.1\r\n")
            begun = time.monotonic()
            assert server.end(signal.SIGHUP) == (0, "")
            assert time.monotonic() - begun < 20


def test_the_signal_handlers_of_the_process_are_as_before(plain_model):
    def end():
        while signal.getsignal(signal.SIGTERM) == before[1]:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    def handlers():
        return list(map(signal.getsignal, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))

    before = handlers()
    threading.Thread(target=end, daemon=True).start()
    dispatch(["serve", "--model", str(plain_model), "--port", "0"])
    assert handlers() == before


def close_to(row):
    """A row whose numbers may differ in their last digits."""
    numbers = {key: value for key, value in row.items() if isinstance(value, float)}
    return row | {key: pytest.approx(value, rel=1e-4) for key, value in numbers.items()}


LONG = [f"{number} {'good ' * 1900}" for number in range(6)]


def test_twenty_clients_get_what_classify_answers(capsys):
    texts = [f"I {verb} it, {n} times." for n in range(10) for verb in ("love", "hate")]
    words = [word for text in [*texts, " "] for word in ("--text", text)]
    dispatch(["classify", "--model", "default_small", *words])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.pop("text") for row in rows] == [*texts, " "]
    with serving("--model", "default_small") as server, ThreadPoolExecutor(20) as clients:
        for _ in range(3):
            answers = list(clients.map(lambda text: server.classify(text, " "), texts))
            for row, answer in zip(rows, answers, strict=False):
                assert list(answer[0]) == list(row)
                assert answer[0] == close_to(row)
                assert answer[1] == rows[-1]
        assert {"positive", "negative"} <= {answer[0]["label"] for answer in answers}
        longest = "good " * 1990
        assert server.classify(*["x"] * 127, longest)[-1]["label"] == "positive"
        answer = server.client.post("/classify", json={"texts": ["", "good " * 2010]})
        assert (answer.status_code, list(answer.json())) == (413, ["error"])
        assert re.match(r"text 2 has 10,05\d tokens; at most 10,000 ", answer.json()["error"])
        running = [clients.submit(server.classify, *LONG) for _ in range(20)]
        time.sleep(2)  # they take longer
        begun = time.monotonic()
        assert server.end() == (0, "")
        assert time.monotonic() - begun < 20
        assert any("shutting down" in str(each.exception()) for each in running)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "70000"], "--port is 70000"),
        (["--host", "localhost"], "--host is localhost; it must be an IP address"),
        (["--host", "192.0.2.1", "--port", "0"], r"--host 192\.0\.2\.1: "),
        (["--port", "{taken}"], "port {taken} .* in use; name another with --port"),
    ],
)
def test_an_address_that_is_none_or_taken_is_refused(words, message):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(InputError, match=message.format(taken=taken)):
            dispatch(["serve", *(word.format(taken=taken) for word in words)])


@pytest.mark.parametrize("name", ["starlette", "uvicorn"])
def test_without_its_packages_it_says_how_to_install_them(monkeypatch, name):
    for module in list(sys.modules):
        if module.startswith(("mlstm_sentiment.server", f"{name}.")):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError) as refusal:
        dispatch(["serve", "--port", "0"])
    assert str(refusal.value) == f'serve needs {name}: pip install "mlstm-sentiment[serve]"'


@pytest.mark.parametrize(
    ("host", "named"), [("0.0.0.0", "127.0.0.1"), pytest.param("0::0", "[::1]", marks=NEEDS_IPV6)]
)
def test_without_a_token_for_a_container(plain_model, host, named):
    with serving("--model", plain_model, "--host", host, "--no-token") as server:
        assert server.line == f"http://{named}:{server.port}/ (Ctrl-C ends it)\n"
        for host, status in (("sentiment:80", 200), ("evil.example", 403)):
            assert server.client.get("/", headers={"Host": host}).status_code == status
        assert server.end() == (0, "")


def command_on_the_page(word):
    """The one command of the page that begins with these words."""
    (command,) = (each for each in commands_of(PAGE) if f"{each} ".startswith(f"{word} "))
    return command


def test_the_commands_on_the_page_print_what_it_shows(tmp_path):
    """The commands with docker are tested in tests/house/test_docker.py."""
    others = [each for each in commands_of(PAGE) if not each.startswith("docker ")]
    assert others == [command_on_the_page("mlstm-sentiment serve"), command_on_the_page("curl")]
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    with serving(*shlex.split(others[0])[2:]) as server:
        line = printed.replace(":8000/", f":{server.port}/")
        assert re.sub(r"token=[\w-]{22} ", f"token={server.token} ", line) == server.line
        curl = others[1].replace(":8000/", f":{server.port}/")
        process = run_shell(f"TOKEN={server.token}; {curl} --silent --show-error", cwd=tmp_path)
        done(process)
        (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
        answer, expected = json.loads(process.stdout), json.loads(shown)
        for row, expected_row in zip(answer["results"], expected["results"], strict=True):
            assert row == close_to(expected_row)
        assert server.end() == (0, "")
