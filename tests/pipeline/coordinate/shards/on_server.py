"""Scenarios on a real server: what the shards' binlog says, coordinated, carried out on a target, row by row.

One server plays all nodes, each with databases of its own, and the target; so its binlog has the events of all nodes in
the order they happened. It is read with the product's parsers; what is merged here, in the simplest way there is, are
single row changes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.rows import RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.events import NodeDdl, shard_events
from binlog_merge.pipeline.coordinate.shards.values import Outcome, Shard, ShardEvent
from binlog_merge.pipeline.order.waits import Waits
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.model import Catalog, Table
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE, NO_ZERO_DATE, NO_ZERO_IN_DATE, SQL_MODES
from snapshot_store.mysql.text.charsets import charset_of
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import OrderKey
from tests.mysql_server import MySqlServer
from tests.pipeline.coordinate.shards.scenario import WAYS, by_table
from tests.pipeline.order.arranging import Touching, arrange

SESSION = DdlSession(sql_mode=DEFAULT_SQL_MODE)
TARGET = ("shardddl", "tb")
# A shard of node source1 is source1_shardddl1.tb1.
ROUTES = Topology((Route("*_shardddl?", "tb*", *TARGET),))
_DATABASE = re.compile(r"`?\b(shardddl\d)\b`?")

Values = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """One changed row of a shard: the images by column name, None where there is none."""

    shard: Shard
    before: Values | None
    after: Values | None


@dataclass
class Log:
    """What a binlog says: DDL as events, and transactions of row changes, each with a key."""

    events: list[ShardEvent]
    rows: list[tuple[OrderKey, list[Change]]]
    catalogs: dict[str, Catalog]


def at_node(node: str, sql: str) -> str:
    """Return a statement with its databases put under the node's name."""
    return _DATABASE.sub(rf"{node}_\1", sql)


def run(server: MySqlServer, statements: Iterable[tuple[str, str]]) -> None:
    """Run statements, each as (node, sql)."""
    statements = [(node, at_node(node, sql)) for node, sql in statements]
    for database in sorted({d for _, sql in statements for d in re.findall(r"\w+_shardddl\d", sql)}):
        server.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for _, sql in statements:
                cursor.execute(sql)
                while cursor.nextset():
                    pass
    finally:
        connection.close()


def read(server: MySqlServer) -> Log:
    """Read the server's binlog."""
    log = Log([], [], {})
    moment = 0
    maps: dict[int, TableMap] = {}
    changes: list[Change] = []
    for file in server.binlog_files():
        for event in walk(file.read_bytes()[4:], checksum=True, offset=4):
            code = event.type_code
            if code == EventType.QUERY_EVENT:
                query = Query.parse(event.body)
                if query.text not in ("BEGIN", "COMMIT"):
                    moment += 1
                    _take_ddl(log, OrderKey(moment, 0, 0, 1), query)
            elif code == EventType.TABLE_MAP_EVENT:
                table_map = TableMap.parse(event.body)
                maps[table_map.table_id] = table_map
            elif code in (EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT):
                rows = RowsEvent.parse(code, event.body)
                changes += _changes(rows, maps[rows.table_id])
            elif code == EventType.XID_EVENT:
                moment += 1
                log.rows.append((OrderKey(moment, 0, 0, 1), changes))
                changes = []
    return log


def _node(schema: str) -> str:
    return schema.partition("_shardddl")[0]


def _take_ddl(log: Log, key: OrderKey, query: Query) -> None:
    names = re.findall(r"(\w+_shardddl\d)", query.text) or [query.schema_text or ""]
    node = _node(names[0])
    before = log.catalogs.get(node, Catalog())
    effect = apply_ddl(before, query.text, query.schema_text or None, SESSION)
    log.catalogs[node] = effect.catalog
    ddl = NodeDdl(node, key, ParsedDdl.of(query.text, SESSION), before, effect, database=query.schema_text or None)
    for logical, event in by_table(shard_events(ddl, ROUTES)):
        if logical == TARGET:
            log.events.append(event)


def _changes(rows: RowsEvent, table_map: TableMap) -> Iterator[Change]:
    shard = Shard(_node(table_map.schema), table_map.schema, table_map.table)
    for before, after in split_rows(rows, table_map):
        yield Change(shard, _values(before, table_map), _values(after, table_map))


def _values(image: Any, table_map: TableMap) -> Values | None:
    if image is None:
        return None
    names = table_map.optional.column_names if table_map.optional else None
    assert names is not None, "binlog_row_metadata is FULL here"
    return {str(name).lower(): _value(table_map, i, image[i]) for i, name in enumerate(names)}


def _value(table_map: TableMap, column: int, cell: Any) -> Any:
    if not isinstance(cell, bytes | memoryview):
        return None
    collation = table_map.collations()[column]
    charset = (charset_of(collation) if collation is not None else None) or "utf8mb4"
    return decode_cell(
        table_map.types[column], table_map.metas[column], bytes(cell), table_map.unsigned()[column], charset
    )


def carry_out(server: MySqlServer, log: Log, outcome: Outcome) -> list[OrderKey]:
    """Carry out the logical DDL and the rows on the target; returns the keys of transactions that are held back.

    Any statement that the server refuses fails the test.
    """
    waits = Waits(outcome.effects)
    changes = {key: found for key, found in log.rows if outcome.stop is None or key < outcome.stop.key}
    touching = [Touching(key, frozenset(c.shard for c in found)) for key, found in changes.items()]
    placed = list(arrange(touching, outcome.effects))
    work: list[tuple[DdlPlace, int, OrderKey]] = [(logical.place, 0, logical.place.key) for logical in outcome.logical]
    work += [(place, 1, transaction.key) for transaction, place in placed if place is not None]
    logical = {entry.place: entry for entry in outcome.logical}
    table: Table | None = None
    modes = [name for name, bit in SQL_MODES.items() if DEFAULT_SQL_MODE & ~(NO_ZERO_DATE | NO_ZERO_IN_DATE) & bit]
    server.execute(f"DROP DATABASE IF EXISTS {TARGET[0]}; CREATE DATABASE {TARGET[0]}")
    connection = server.connect(TARGET[0])
    try:
        with connection.cursor() as cursor:
            for place, kind, key in sorted(work):
                if kind == 0:
                    cursor.execute(f"SET sql_mode = '{','.join(modes)}'")
                    for sql in logical[place].statements:
                        cursor.execute(sql)
                    table = logical[place].table
                    # A row leaves out what its shard has not, and NOT NULL then is the type's zero.
                    cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
                    continue
                assert table is not None
                for change in changes[key]:
                    _apply(cursor, change, table, waits.renames(change.shard, key, place))
    finally:
        connection.close()
    return [transaction.key for transaction, place in placed if place is None]


def _apply(cursor: "pymysql.cursors.Cursor", change: Change, table: Table, renames: Sequence[tuple[str, str]]) -> None:
    known = {c.name.lower(): c for c in table.columns}

    def here(image: Values) -> Values:
        names = dict(image)
        for old, new in renames:
            if old.lower() in names:
                names = {(new.lower() if n == old.lower() else n): v for n, v in names.items()}
        return {n: v for n, v in names.items() if n in known and known[n].generated is None}

    name = ".".join(f"`{part}`" for part in TARGET)
    before = None if change.before is None else here(change.before)
    after = None if change.after is None else here(change.after)
    where = " AND ".join(f"`{n}` <=> %s" for n in before or ())
    if before is None and after is not None:
        columns = ", ".join(f"`{n}`" for n in after)
        cursor.execute(
            f"INSERT INTO {name} ({columns}) VALUES ({', '.join(['%s'] * len(after))})", list(after.values())
        )
    elif before is not None and after is None:
        cursor.execute(f"DELETE FROM {name} WHERE {where} LIMIT 1", list(before.values()))
    elif before is not None and after is not None:
        setting = ", ".join(f"`{n}` = %s" for n in after)
        cursor.execute(f"UPDATE {name} SET {setting} WHERE {where} LIMIT 1", [*after.values(), *before.values()])


def coordinate(log: Log, way: str) -> Outcome:
    """Coordinate what a log says."""
    return WAYS[way]({}, None, log.events, SESSION)


def contents(server: MySqlServer, tables: Iterable[tuple[str, str]], columns: Sequence[str]) -> list[str]:
    """Return the rows of tables, together, as texts in order."""
    listed = ", ".join(f"`{c}`" for c in columns)
    found = [row for schema, table in tables for row in server.query(f"SELECT {listed} FROM `{schema}`.`{table}`")]
    return sorted(map(repr, found))


def shards_of(log: Log) -> Mapping[Shard, Table]:
    """Return the shards that there are in the end."""
    return {
        Shard(node, *name): table
        for node, catalog in log.catalogs.items()
        for name, table in catalog.tables.items()
        if ROUTES.logical_name(node, *name) == TARGET
    }
