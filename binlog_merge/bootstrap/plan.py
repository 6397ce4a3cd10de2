"""What a round copies: the logical tables, and where their rows are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from binlog_merge.bootstrap.values import Name, Reading, Shard, Texts
from binlog_merge.config.merge_config import MergeConfig, route_of, topology_of
from binlog_merge.config.modes import Extract, key_columns
from binlog_merge.errors import UnsupportedInput
from binlog_merge.tables.rows import keys_of
from binlog_merge.values.sql import literal_of_written, text_of, written_of
from snapshot_store.model import Catalog, Column, Table
from snapshot_store.mysql.column_type import MEMBERS, OPAQUE, TEMPORAL, Family
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.text.codecs import text_or_bytes
from snapshot_store.topology import Route, Topology

_MOST_NAMED: Final = 10


@dataclass(frozen=True)
class RoutedTables:
    """Which logical table a physical one belongs to, and what its route fills in."""

    topology: Topology
    extracts: Mapping[Route, Extract]

    @classmethod
    def of(cls, config: MergeConfig) -> "RoutedTables":
        """Return the places that a configuration's routes say."""
        extracts = {route_of(rule, config): found for rule in config.routes if (found := rule.extract()) is not None}
        return cls(topology_of(config), extracts)

    def name(self, shard: Shard) -> Name | None:
        """Return the logical table of a physical one, None if it is left out of the log."""
        return self.topology.logical_name(*shard)

    def key_columns(self, name: Name) -> tuple[str, ...]:
        """Return the columns that routes fill in which are part of the keys of a logical table."""
        return key_columns(self.extracts, name)

    def reading(self, shard: Shard, table: Table) -> Reading:
        """Return how a physical table is read as rows of a logical one."""
        route = self.topology.route(*shard)
        extract = None if route is None else self.extracts.get(route)
        constants = {} if extract is None else {name.lower(): value for name, value in extract.values(*shard)}
        return Reading(table, table.columns, tuple(next(keys_of(table))), constants)


def check_tables(tables: Iterable[Table], logs_cascades: bool) -> None:
    """Raise UnsupportedInput for tables whose rows cannot be read while the log goes on."""
    tables = list(tables)
    keyless = [t for t in tables if (key := next(keys_of(t), None)) is None or _unordered(t, key)]
    if keyless:
        raise UnsupportedInput(
            f"no primary key, and no unique one without NULL, tells the rows of {_listed(keyless)} apart: what of them "
            "was read before and after a change cannot be told, either",
            remedy="give them a primary key, of columns that they have or of a new one whose values differ between "
            "shards; or leave their schema out of the log, `ignore-schemas`",
        )
    cascading = [table for table in tables if table.cascades]
    if cascading and not logs_cascades:
        raise UnsupportedInput(
            f"foreign keys of {_listed(cascading)} change rows that no binlog names (ON DELETE CASCADE and the like)",
            remedy="MySQL 9.6 and later logs them, with innodb_native_foreign_keys=OFF; or use RESTRICT",
        )


def _unordered(table: Table, key: Sequence[int]) -> bool:
    return any(table.columns[i].type.family in UNORDERED for i in key)


def _listed(tables: Sequence[Table]) -> str:
    names = [f"{table.schema}.{table.name}" for table in tables]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def of_catalog(names: Iterable[Name], catalog: Catalog) -> tuple[Name, ...]:
    """Return those of some tables that a catalog has, sorted."""
    return tuple(sorted(name for name in names if name in catalog.tables))


UNORDERED: Final = frozenset({Family.JSON, Family.VECTOR, Family.GEOMETRY})
"""Types that no key can have."""


def chunk_sql(shard: Shard, reading: Reading, after: Texts | None, limit: int, as_text: bool) -> str:
    """Return the SELECT of at most `limit` rows behind the key `after`, of the columns and then of the key."""
    form = text_of if as_text else written_of
    sources = [_source(column, reading) for column in reading.columns]
    shown = [form(column, source) for column, source in zip(reading.columns, sources, strict=True)]
    keys = [(reading.columns[i], sources[i]) for i in reading.key]
    shown += [written_of(column, source) for column, source in keys]
    ordered = [_ordered(column, source) for column, source in keys]
    where = "" if after is None else f" WHERE {_behind(ordered, _literals(reading, after))}"
    place = f"{quote_name(shard.schema)}.{quote_name(shard.table)}"
    return f"SELECT {', '.join(shown)} FROM {place}{where} ORDER BY {', '.join(ordered)} LIMIT {limit}"


def found_sql(shard: Shard, reading: Reading, keys: Sequence[Texts]) -> str:
    """Return the SELECT of those of some keys that a shard has."""
    columns = [(reading.columns[i], _source(reading.columns[i], reading)) for i in reading.key]
    shown = ", ".join(written_of(column, source) for column, source in columns)
    place = f"{quote_name(shard.schema)}.{quote_name(shard.table)}"
    sources = [_ordered(column, source) for column, source in columns]
    same = " OR ".join(
        "(" + " AND ".join(f"{s} = {v}" for s, v in zip(sources, _literals(reading, key), strict=True)) + ")"
        for key in keys
    )
    return f"SELECT {shown} FROM {place} WHERE {same}"


def shown_key(reading: Reading, key: Texts) -> str:
    """Return a key, given as `written_of` the columns, as text for a message: `code='DE'`."""
    columns = (reading.columns[i] for i in reading.key)
    return ", ".join(f"{column.name}={_shown(column, text)}" for column, text in zip(columns, key, strict=True))


def _shown(column: Column, text: str | None) -> str:
    if text is not None and column.type.family is Family.TEXT:
        return repr(text_or_bytes(column.type.charset or "binary", bytes.fromhex(text)))
    if text is not None and column.type.family in OPAQUE:
        return f"0x{text}"
    return f"'{text}'" if column.type.family in TEMPORAL else str(text)


def _source(column: Column, reading: Reading) -> str:
    """Return the SQL of a column's value: its name, or the value that the route fills in."""
    constant = reading.constants.get(column.name.lower())
    if constant is None:
        return quote_name(column.name)
    text = f"_utf8mb4 x'{constant.encode().hex()}'"
    charset = column.type.charset
    return f"CONVERT({text} USING {charset})" if charset and charset != "binary" else f"({text} + 0)"


def _ordered(column: Column, source: str) -> str:
    # Members compare with a number by their own, with a text by the text.
    return f"{source} + 0" if column.type.family in MEMBERS else source


def _literals(reading: Reading, key: Texts) -> list[str]:
    return [literal_of_written(reading.columns[i], text) for i, text in zip(reading.key, key, strict=True)]


def _behind(columns: Sequence[str], values: Sequence[str]) -> str:
    """Return the condition that a key is behind another, whose first part uses an index."""
    ways = []
    for i, (column, value) in enumerate(zip(columns, values, strict=True)):
        same = [f"{c} = {v}" for c, v in zip(columns[:i], values[:i], strict=True)]
        ways.append("(" + " AND ".join([*same, f"{column} > {value}"]) + ")")
    return f"{columns[0]} >= {values[0]} AND ({' OR '.join(ways)})"
