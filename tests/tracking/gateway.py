"""A gateway before a tracking server that answers in its place, as proxies, sign-in pages and quotas do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Rule = Callable[[str, str, int], tuple[int, dict[str, str], bytes] | None]


@dataclass
class Gateway:
    url: str
    rule: Rule
    requests: list[str] = field(default_factory=list)


@contextmanager
def gateway(target: str, rule: Rule) -> Iterator[Gateway]:
    """Requests go to `target` unless the rule, given method, path and number of the request, answers itself."""
    made = Gateway("", rule)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.requests.append(f"{self.command} {self.path}")
            own = made.rule(self.command, self.path, len(made.requests))
            status, headers, content = self.forward(body) if own is None else own
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(target.removeprefix("http://"), timeout=60)
            passed = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            connection.request(self.command, self.path, body, passed)
            given = connection.getresponse()
            return given.status, {"Content-Type": given.headers.get("Content-Type", "")}, given.read()

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
