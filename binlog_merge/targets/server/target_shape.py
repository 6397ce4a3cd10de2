"""Checks that the target's tables match the log's rows: a server applies cells by column index with few checks.

| the target has | a server by default | here |
|---|---|---|
| fewer columns | drops the remaining cells | refused |
| more columns at the end | gives them their defaults | the same |
| other names, signs, ENUM members, character sets | interprets the bytes by its own definition | refused |
| other types | refuses, "Unknown error", or converts by `replica_type_conversions` | named, or converted |
| an engine without transactions | keeps what is rolled back | refused |

What a table map does not contain (`binlog_row_metadata=MINIMAL`: all but count and types) is not compared. Sources:
MySQL manual 19.5.1.9 "Replication with Differing Table Definitions on Source and Replica",
`table_def::compatible_with`.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ReplayStopped, UnsupportedInput
from binlog_merge.reshape.witness import table_difference
from snapshot_store import parse_table
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Column, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.text.charsets import canonical_charset, charset_of

MOST_TABLES: Final = 2000

_ENGINE: Final = re.compile(r"^\) ENGINE=(\w+)", re.MULTILINE)
_LASTING: Final = frozenset({"myisam", "memory", "csv", "archive", "mrg_myisam"})
"""MySQL's engines without transactions, whose rows stay after a rollback."""
_CONTAINED: Final = frozenset({("utf8mb3", "utf8mb4"), ("ascii", "utf8mb4"), ("ascii", "utf8mb3"), ("ascii", "latin1")})
"""Pairs of character sets: every text of the first has the same bytes in the second."""


class TargetShapes:
    """Compares tables of the target with table maps. `ask` runs a query at the target."""

    def __init__(self, ask: Callable[..., list[tuple[Any, ...]]]) -> None:
        self._ask = ask
        self._seen: dict[tuple[str, str], TableMap] = {}
        self._converts: bool | None = None

    def check(self, rows: TableMap) -> None:
        """Compare the target's table with a table map, once. Raises ReplayStopped if rows would be applied wrongly.

        After a DDL the log has another table map. A missing table, or one whose definition is not understood, is left
        to the server.
        """
        name = (rows.schema, rows.table)
        if self._seen.get(name) is rows:
            return
        if len(self._seen) >= MOST_TABLES:
            self._seen.clear()
        self._seen[name] = rows
        text = self._definition(*name)
        reason = None if text is None else misfit(text, rows, self._server_converts())
        if reason is not None:
            raise ReplayStopped(
                f"the target's table {rows.schema}.{rows.table} is not the one that the rows are of: {reason}",
                remedy="make the target's table what it is where the replay stands, and run the replay again",
            )

    def _definition(self, schema: str, table: str) -> str | None:
        import pymysql

        try:
            row = self._ask(f"SHOW CREATE TABLE {quote_name(schema)}.{quote_name(table)}")[0]
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in _NOT_SHOWN:
                return None
            raise
        return str(row[1]) if len(row) == 2 else None

    def _server_converts(self) -> bool:
        if self._converts is None:
            found = self._ask(r"SHOW GLOBAL VARIABLES LIKE '%\_type\_conversions'")
            self._converts = any(value for _, value in found)
        return self._converts


_NOT_SHOWN: Final = frozenset({1049, 1146, 1347, 1356})
"""Errors for a missing database or table, an object that is no table, and a broken view."""


def misfit(definition: str, rows: TableMap, converts: bool = False) -> str | None:
    """Return why rows do not fit a table as in SHOW CREATE TABLE; None if they do, or it is not understood.

    `converts`: the server converts types.
    """
    engine = _ENGINE.search(definition)
    if engine is not None and engine[1].lower() in _LASTING:
        return f"{engine[1]} undoes nothing, so what is killed midway would be doubled; it must be InnoDB"
    try:
        table = parse_table(definition, schema=rows.schema)
        if len(table.columns) < len(rows.types):
            return f"it has {len(table.columns)} columns, the rows {len(rows.types)}"
        return table_difference(_as_far_as_rows_go(table, rows), rows, types=not converts)
    except (SnapshotStoreError, UnsupportedInput):
        return None


def _as_far_as_rows_go(table: Table, rows: TableMap) -> Table:
    """Return the table with the columns that the rows have; texts with the same bytes get the rows' character set."""
    columns = zip(table.columns, rows.collations(), strict=False)
    return replace(table, columns=tuple(_in_charset(column, collation) for column, collation in columns))


def _in_charset(column: Column, collation: int | None) -> Column:
    charset = None if collation is None else charset_of(collation)
    if charset is None or (charset, canonical_charset(column.type.charset or "binary")) not in _CONTAINED:
        return column
    return replace(column, type=replace(column.type, charset=charset))
