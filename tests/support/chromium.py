"""A page in headless Chromium: opened once, or driven over WebDriver (W3C's protocol)."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
KEYS = {"Tab": "\ue004", "Escape": "\ue00c"}
TIMEOUT = 60_000  # milliseconds for one script


def browse(page: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[bytes]:
    """Open a page once and return the finished process; the page and a profile lie in a folder."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    own = ("--enable-logging=stderr", "--window-size=900,900")
    own += (f"--user-data-dir={folder / 'profile'}",)
    command = [CHROMIUM or "", *FLAGS, *own, *flags, path.as_uri()]
    return subprocess.run(command, capture_output=True, timeout=120, check=True)


def messages(process: subprocess.CompletedProcess[bytes]) -> list[str]:
    """Return what the page said on the console: errors, refusals by its policy."""
    return [line for line in process.stderr.decode().splitlines() if "CONSOLE" in line]


class Browser:
    """A session; every method is one request."""

    def __init__(self, session: str):
        self._session = session

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """Return the answer to a request: a POST of content, or a GET where there is none."""
        return _answer(f"{self._session}/{path}", content)

    def open(self, address: str) -> None:
        """Load a page."""
        self.ask("url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a function's body returns, once its promise has been kept."""
        body = (
            "const done = arguments[arguments.length - 1];"
            f"(async function () {{ {script} }})(...arguments)"
            ".then((value) => done({ value }), (error) => done({ error: String(error) }));"
        )
        answer = self.ask("execute/async", {"script": body, "args": list(arguments)})
        assert "error" not in answer, answer
        return answer.get("value")

    def type(self, selector: str, text: str) -> None:
        """Press keys in an element; ChromeDriver has none for characters beyond U+FFFF."""
        element = self.ask("element", {"using": "css selector", "value": selector})
        self.ask(f"element/{next(iter(element.values()))}/value", {"text": text})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol, for what WebDriver lacks."""
        return self.ask("goog/cdp/execute", {"cmd": command, "params": parameters})


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile in a folder, and end it."""
    process = subprocess.Popen(
        [DRIVER or "", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        ports = (re.search(r"started successfully on port (\d+)", line) for line in process.stdout)
        address = f"http://127.0.0.1:{next(filter(None, ports))[1]}"
        arguments = [*FLAGS, f"--user-data-dir={folder}"]
        options = {"binary": CHROMIUM, "args": arguments}
        capabilities = {"goog:chromeOptions": options, "timeouts": {"script": TIMEOUT}}
        opened = _answer(f"{address}/session", {"capabilities": {"alwaysMatch": capabilities}})
        session = f"{address}/session/{opened['sessionId']}"
        try:
            yield Browser(session)
        finally:
            _answer(session, None, method="DELETE")  # else Chromium outlives its driver
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _answer(address: str, content: dict[str, Any] | None, method: str | None = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, data, method=method)
    local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with local.open(request, timeout=TIMEOUT / 1000 + 10) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(json.load(error)["value"]["message"]) from error
