"""Reads a MySQL's changes with mysql-replication until it is killed. Each transaction is a line of JSON in FILE: its
changes, and the place behind it, from which the next start goes on.

    python mysql_replication.py PORT FILE PLACE
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, QueryEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

NONE_OF_IT = "00000000-0000-0000-0000-000000000001:1"
"""It takes an empty set for none, and reads from the log's end."""


def main(port: int, file: Path, begun: str) -> None:
    """Read."""
    reader = BinLogStreamReader(
        {"host": "127.0.0.1", "port": port, "user": "rep", "password": "a secret"},
        server_id=7401,
        blocking=True,
        resume_stream=True,
        slave_heartbeat=2,
        auto_position=begun or NONE_OF_IT,
        only_events=[GtidEvent, QueryEvent, XidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    gtid, changes = "", []
    last = int(begun.rpartition("-")[2] or 0)  # when it connects again by itself, it asks as at its start
    for event in reader:
        if isinstance(event, GtidEvent):
            gtid, changes = event.gtid, []
        elif isinstance(event, XidEvent) or (isinstance(event, QueryEvent) and event.query != "BEGIN"):
            server, number = gtid.split(":")
            if int(number) <= last:
                continue
            last = int(number)
            line = {"changes": changes, "place": {"gtids": f"{server}:1-{number}"}}
            with file.open("a") as out:
                out.write(json.dumps(line) + "\n")
        elif not isinstance(event, QueryEvent):
            changes += changes_of(event)


def changes_of(event: Any) -> Iterator[dict[str, Any]]:
    """Yield the changes of rows of an event."""
    table = f"{event.schema}.{event.table}"
    for row in event.rows:
        written = isinstance(event, WriteRowsEvent)
        before = None if written else row.get("before_values", row.get("values"))
        after = row["values"] if written else row.get("after_values")
        op = "c" if written else "d" if after is None else "u"
        yield {"op": op, "table": table, "before": shown(before), "after": shown(after)}


def shown(row: "dict[str, object] | None") -> "dict[str, object] | None":
    """Return a row with values that JSON has."""
    return row and {name: None if value is None else text(value) for name, value in row.items()}


def text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set):
        return ",".join(sorted(value))
    return str(value)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]).get("gtids", ""))
