"""What runs beside a capture, on connections of its own: asking the server's clock, and heartbeats."""

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from snapshot_store.server import ServerAddress, message_of

_SILENCE_SECONDS: Final = 10.0
_ASLEEP_SECONDS: Final = 5.0
_XA_START: Final = re.compile(r"\s*XA\s+(?:START|BEGIN)\s+(.+?)\s*", re.IGNORECASE)

Connect = Callable[[], Any]


class Activity:
    """When one of a cluster's nodes has written last, as far as all are captured together. For any thread.

    When none writes any more, no transaction waits for a clock: clocks are asked for `awake` seconds more, longer than
    they may differ, and then now and then.
    """

    def __init__(self, awake: float) -> None:
        self._awake = awake
        self._last = time.monotonic()

    def wrote(self) -> None:
        """Take note that a node has written."""
        self._last = time.monotonic()

    def wants(self, asked: float) -> bool:
        """Return whether a clock that was asked at a moment is to be asked again."""
        now = time.monotonic()
        return now - self._last < self._awake or now - asked >= _ASLEEP_SECONDS


class Repeated(threading.Thread):
    """Does something with a connection, again and again while `due`, until `stop`.

    What fails is reported, once for each new reason, and tried again on a new connection: it never ends the capture.
    """

    def __init__(
        self,
        name: str,
        seconds: float,
        connect: Connect,
        due: Callable[[], bool],
        work: Callable[[Any], None],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._seconds, self._connect, self._due, self._work, self._report = seconds, connect, due, work, report
        self._stopped = threading.Event()
        self._elsewhere = threading.Event()
        self._connection: Any = None

    def connect_again(self) -> None:
        """Work on a new connection from now on: the node has another server."""
        self._elsewhere.set()

    def stop(self) -> None:
        """End after what is being done, and wait for that."""
        self._stopped.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Work until stopped."""
        failed = ""
        while True:
            if self._due():
                text = self._once()
                if text and text != failed:
                    self._report(text)
                failed = text
            if self._stopped.wait(self._seconds):
                self._close()
                return

    def _once(self) -> str:
        """Work once; returns what failed."""
        try:
            if self._elsewhere.is_set():
                self._elsewhere.clear()
                self._close()
            if self._connection is None:
                self._connection = self._connect()
            self._work(self._connection)
            return ""
        except Exception as error:  # a thread's exception would be printed and forgotten
            self._close()
            return message_of(error) or type(error).__name__

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()


def connecting(address: Callable[[], ServerAddress], ssl_ca: str | None) -> Connect:
    """Return what connects to the server that has the node at that moment."""
    return lambda: address().connect(ssl_ca, _SILENCE_SECONDS)


def rows_of(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows. Raises what PyMySQL raises."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def beat(connection: Any, connect: Connect, statements: Sequence[str]) -> None:
    """Run the statements of a heartbeat, with {id} as an id of its own. Raises what PyMySQL raises.

    An XA transaction that the statements began and did not end is rolled back: prepared, it would hold back everything.
    """
    own = uuid.uuid4().hex
    begun: list[str] = []
    try:
        for statement in statements:
            sql = statement.replace("{id}", own)
            found = _XA_START.fullmatch(sql)
            begun += [found[1]] if found is not None else []
            rows_of(connection, sql)
    except Exception:
        if begun:
            _roll_back(connection, connect, begun)
        raise


def _roll_back(connection: Any, connect: Connect, begun: Sequence[str]) -> None:
    import pymysql

    with contextlib.suppress(Exception):
        connection.close()  # what is not prepared is rolled back with its session
    with connect() as fresh:
        for xid in begun:
            with contextlib.suppress(pymysql.MySQLError):  # ended, or never prepared
                rows_of(fresh, f"XA ROLLBACK {xid}")
