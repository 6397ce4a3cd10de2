"""The SQL that reads rows from a server in chunks, in the order of a key, as texts that lose nothing.

    SELECT … FROM t WHERE a >= 7 AND ((a > 7) OR (a = 7 AND b > x'ff')) ORDER BY a, b LIMIT 1000

A value is read in one of the two forms of `values.sql.server_text`.
"""

from collections.abc import Sequence
from typing import Final

from binlog_merge.bootstrap.values import Reading, Shard, Texts
from binlog_merge.values.sql.server_text import literal_of_written, text_of, written_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import MEMBERS, OPAQUE, TEMPORAL, Family
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.text.codecs import text_or_bytes

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
