"""The SQL that reads rows from a server in chunks, in the order of a key, as texts that lose nothing.

    SELECT … FROM t WHERE a >= 7 AND ((a > 7) OR (a = 7 AND b > x'ff')) ORDER BY a, b LIMIT 1000

A value is read in one of two forms: as the text of it (`text_of`), or as that from which `literal` makes SQL that a
MySQL server takes for the same bytes (`written_of`): hexadecimal digits of strings, the numbers of members of ENUM and
SET, all digits of FLOAT and DOUBLE. TIMESTAMP is in UTC.
"""

from collections.abc import Sequence
from typing import Final

from binlog_merge.bootstrap.values import Reading, Shard, Texts
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import MEMBERS, OPAQUE, TEMPORAL, Family
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.text.codecs import text_or_bytes

_NUMBERED: Final = MEMBERS | {Family.BIT, Family.YEAR}
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


def text_of(column: Column, source: str) -> str:
    """Return the SQL of a value's text."""
    kind = column.type.family
    if kind is Family.TEXT or kind in MEMBERS:
        return f"CONVERT({source} USING utf8mb4)"
    return f"HEX({source})" if kind in OPAQUE else _plain(column, source)


def written_of(column: Column, source: str) -> str:
    """Return the SQL of the text from which `literal` makes a value again."""
    kind = column.type.family
    if kind in OPAQUE or kind is Family.TEXT:
        return f"HEX({source})"
    if kind is Family.JSON:
        return f"HEX(CAST({source} AS CHAR))"
    return f"CAST({source} + 0 AS CHAR)" if kind in MEMBERS else _plain(column, source)


def literal(column: Column, text: str | None) -> str:
    """Return SQL that a server takes for the value whose `written_of` is this text."""
    kind = column.type.family
    if text is None:
        return "NULL"
    if kind is Family.TEXT or kind is Family.JSON:
        return f"_{column.type.charset if kind is Family.TEXT else 'utf8mb4'} x'{text}'"
    if kind in OPAQUE:
        return f"x'{text}'"
    if kind is Family.FLOAT:
        return number_of(text)
    return f"'{text}'" if kind in TEMPORAL else text


def number_of(text: str) -> str:
    """Return the number in the JSON array as which a server shows a FLOAT or DOUBLE."""
    return text.strip("[]")


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


def _plain(column: Column, source: str) -> str:
    kind = column.type.family
    if kind is Family.FLOAT:
        # A server may cut the last digit of a DOUBLE; in a JSON document it prints all significant digits.
        return f"IF({source} IS NULL, NULL, CAST(JSON_ARRAY(CAST({source} AS DOUBLE) + 0e0) AS CHAR))"
    if kind in _NUMBERED or column.type.zerofill:
        return f"CAST({source} + 0 AS CHAR)"
    return f"CAST({source} AS CHAR)"


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
    return [literal(reading.columns[i], text) for i, text in zip(reading.key, key, strict=True)]


def _behind(columns: Sequence[str], values: Sequence[str]) -> str:
    """Return the condition that a key is behind another, whose first part uses an index."""
    ways = []
    for i, (column, value) in enumerate(zip(columns, values, strict=True)):
        same = [f"{c} = {v}" for c, v in zip(columns[:i], values[:i], strict=True)]
        ways.append("(" + " AND ".join([*same, f"{column} > {value}"]) + ")")
    return f"{columns[0]} >= {values[0]} AND ({' OR '.join(ways)})"
