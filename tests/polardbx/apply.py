"""A merged binlog applied to a real MySQL, which is asked after every transaction whether all money is there."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.mysql_server import MySqlServer, mysqlbinlog
from tests.polardbx.world import State
from tests.simulator.columns import Column, Table, Value

COMMIT = b"COMMIT/*!*/;\n"
ASK = b"SET @@SESSION.GTID_NEXT='AUTOMATIC'/*!*/;\nSELECT 'total', SUM(`balance`) FROM `bank`.`account`/*!*/;\n"


def apply_merged(
    server: MySqlServer, base: Sequence[tuple[str, Table]], files: Mapping[str, bytes], scratch: Path, ask: bool = False
) -> list[str]:
    """Make the base tables and feed the files to the server; returns the sum of balances after each transaction."""
    for name, table in base:
        schema, _, own = name.partition(".")
        server.execute(f"CREATE DATABASE IF NOT EXISTS `{schema}`")
        server.execute(table.create(f"`{own}`"), schema)
    server.execute("CREATE DATABASE IF NOT EXISTS `shop`")
    paths = []
    for name, data in sorted(files.items()):
        (scratch / name).write_bytes(data)
        paths.append(scratch / name)
    text = mysqlbinlog(paths, "--verify-binlog-checksum", "--skip-gtids") if paths else b""
    assert text.count(b"\n" + COMMIT) or not ask
    told = server.apply(text.replace(COMMIT, COMMIT + ASK) if ask else text, "--skip-column-names")
    return [line.split("\t")[1] for line in told.decode(errors="replace").splitlines() if line.startswith("total\t")]


def tables_of(server: MySqlServer, shapes: Mapping[str, tuple[Table, State]]) -> dict[str, State]:
    """Return the rows of tables by id, as the simulator writes values."""
    found: dict[str, State] = {}
    for name, (table, _) in shapes.items():
        schema, _, own = name.partition(".")
        columns = ", ".join(f"`{c.name}`" for c in table.columns)
        rows = server.query(f"SELECT {columns} FROM `{schema}`.`{own}`")
        found[name] = {
            int(row[0]): {c.name: _value(c, v) for c, v in zip(table.columns, row, strict=True)} for row in rows
        }
    return found


def user_tables(server: MySqlServer) -> set[str]:
    """Return the names of all tables but the system's."""
    sql = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    system = ("mysql", "sys", "information_schema", "performance_schema")
    return {f"{schema}.{name}" for schema, name in server.query(sql) if schema not in system}


def comparable(rows: State) -> State:
    """Return rows with their numbers as numbers: a wider DECIMAL has more zeros."""
    return {number: {name: _number(value) for name, value in values.items()} for number, values in sorted(rows.items())}


def _number(value: Value) -> Value:
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def _value(column: Column, value: Any) -> Value:
    if isinstance(value, datetime):
        return *value.timetuple()[:6], value.microsecond
    if isinstance(value, date):
        return value.year, value.month, value.day
    if isinstance(value, bytes) and column.is_text:
        return value.decode()
    found: Value = value
    return found
