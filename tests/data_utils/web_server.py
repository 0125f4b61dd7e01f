"""A local server that publishes one file, as well or as badly as a test asks."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is published, how each request in turn is served, and what was asked."""

    content: bytes
    kind: str = "application/octet-stream"
    headers: dict[str, str] = field(default_factory=dict)  # further ones
    statuses: list[int] = field(default_factory=list)  # refuse the next requests so
    cuts: list[int] = field(default_factory=list)  # bytes after which the next answers end
    claims: int | None = None  # bytes that the answers say they have
    stalls: bool = False  # an answer that is cut does not end, it waits
    asked: list[dict[str, str]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)  # bytes of each answer
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
        self.send_response(200)
        self.send_header("Content-Type", site.kind)
        self.send_header("Content-Length", str(site.claims or len(site.content)))
        for name, value in site.headers.items():
            self.send_header(name, value)
        self.end_headers()
        end = site.cuts.pop(0) if site.cuts else len(site.content)
        self.wfile.write(site.content[:end])
        site.sent.append(end)
        if site.stalls and end < len(site.content):
            self.wfile.flush()
            site.over.wait(20)

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
