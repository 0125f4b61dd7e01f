"""A local server that publishes one file, as well or as badly as a test asks."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is published, how each request in turn is served, and what was asked."""

    content: bytes
    etag: str | None = '"v1"'
    last_modified: str | None = None
    resumes: bool = True
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)  # further ones
    statuses: list[int] = field(default_factory=list)  # refuse the next requests so
    cuts: list[int] = field(default_factory=list)  # bytes after which the next answers end
    claims: int | None = None  # bytes that the answers say they have
    stalls: bool = False  # an answer that is cut does not end, it waits
    asked: list[dict[str, str]] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)  # first and last byte + 1
    address: str = ""
    over: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site = self.site
        site.asked.append(dict(self.headers))
        if site.statuses:
            self.send_error(site.statuses.pop(0))
            return
        start = self._first_byte()
        if start >= len(site.content) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.content)}")
            self.end_headers()
            return
        self._send_head(start)
        end = len(site.content)
        if site.cuts:
            end = min(end, start + site.cuts.pop(0))
        self.wfile.write(site.content[start:end])
        site.sent.append((start, end))
        if site.stalls and end < len(site.content):
            self.wfile.flush()
            site.over.wait(20)

    def _first_byte(self) -> int:
        asked = self.headers.get("Range")
        version = self.headers.get("If-Range")
        fresh = version in (None, self.site.etag, self.site.last_modified)
        if asked is None or not self.site.resumes or not fresh:
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def _send_head(self, start: int) -> None:
        site = self.site
        size = len(site.content)
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", site.kind)
        self.send_header("Content-Length", str(site.claims or size - start))
        for name, value in site.headers.items():
            self.send_header(name, value)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.last_modified:
            self.send_header("Last-Modified", site.last_modified)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(content: bytes, **behaviour):
    """Serve on a free port of this machine; on leaving, no thread and no socket is left."""
    site = Site(content, **behaviour)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    server.daemon_threads = False  # joined by server_close
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
