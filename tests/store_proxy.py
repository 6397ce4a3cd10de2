"""A proxy before an object store that can be told, while it runs, what to do with requests."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.object_store import Store


class Mode(StrEnum):
    """What becomes of a request: LOST ones are carried out, and not answered, BLIND ones lose their conditions."""

    PASS = "pass"
    CUT = "cut"
    E500 = "500"
    E503 = "503"
    SLOW = "slow"
    LOST = "lost"
    BLIND = "blind"


@dataclass(frozen=True, slots=True)
class Change:
    """A request of a client that a store has carried out, and that may have changed something."""

    client: str
    method: str
    path: str
    body: bytes


class StoreProxy:
    """A store as one host sees it. `mode` may be set at any time; `requests` counts what came, by method, and `by` the
    bytes of answers, by the path that was asked for.

    Where several hosts use one proxy, `modes` are those of clients, by address. `on_change` gets what was carried out
    of what may change something, in the order in which the store has answered.
    """

    def __init__(
        self,
        store: Store,
        slow: float = 1.0,
        at: tuple[str, int] = ("127.0.0.1", 0),
        on_change: Callable[[Change], None] | None = None,
    ) -> None:
        host, _, port = store.address.removeprefix("http://").partition(":")
        self.target, self.slow, self.on_change = (host, int(port)), slow, on_change
        self.mode = Mode.PASS
        self.modes: dict[str, Mode] = {}
        self.requests: dict[str, int] = {}
        self.by: Counter[str] = Counter()
        self._server = _Server(at, _Handler)
        self._server.proxy = self
        self.address = f"http://{at[0]}:{self._server.server_address[1]}"

    @property
    def read(self) -> int:
        """Return how many bytes all answers have had so far."""
        return self.by.total()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: StoreProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that has gone


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._pass_on()

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def _pass_on(self) -> None:
        proxy = self.server.proxy
        proxy.requests[self.command] = proxy.requests.get(self.command, 0) + 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        mode = proxy.modes.get(self.client_address[0], proxy.mode)
        if mode is Mode.CUT:
            self.close_connection = True
            return
        if mode in (Mode.E500, Mode.E503):
            code = "InternalError" if mode is Mode.E500 else "SlowDown"
            self._answer(int(mode), {}, f"<Error><Code>{code}</Code></Error>".encode())
            return
        if mode is Mode.SLOW:
            time.sleep(proxy.slow)
        with suppress(OSError):
            connection = http.client.HTTPConnection(*proxy.target, timeout=60)
            headers = dict(self.headers)
            if mode is Mode.BLIND:
                headers = {name: value for name, value in headers.items() if not name.lower().startswith("if-")}
            connection.request(self.command, self.path, body, headers)
            found = connection.getresponse()
            data = found.read()
            connection.close()
            proxy.by[self.path.partition("?")[0]] += len(data)
            if proxy.on_change is not None and self.command in ("PUT", "POST", "DELETE") and found.status < 300:
                proxy.on_change(Change(self.client_address[0], self.command, self.path, body))
            if mode is Mode.LOST:
                self.close_connection = True
                return
            self._answer(found.status, dict(found.getheaders()), data)
            return
        self.close_connection = True

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
