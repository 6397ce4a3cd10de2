"""Rows as canal-json: alibaba/canal's FlatMessage, one row a message, with TiCDC's extension if asked for.

    {"id":0,"database":"shop","table":"orders","pkNames":["id"],"isDdl":false,"type":"UPDATE","es":…,"ts":…,"sql":"",
     "sqlType":{"id":-5,…},"mysqlType":{"id":"bigint",…},"data":[{"id":"1",…}],"old":[{"price":"2.00"}]}

Every value is a text: an enum's is its number, a set's and a bit's the number of its bits, bytes are ISO 8859-1.
`old` has the columns that an update changes. Sources: FlatMessage and LogEventConvert of alibaba/canal 1.1,
pkg/sink/codec/canal of pingcap/tiflow.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.messages import json_text as j
from binlog_merge.messages.message import Encoded, Message, canal_kind
from binlog_merge.messages.plain import value_texts
from binlog_merge.messages.read import Ddl
from binlog_merge.messages.rows import UPDATE, TableRows, guarded, row_keys, sparse
from binlog_merge.values.types import forms_of
from snapshot_store.mysql.column_type import Family
from snapshot_store.render_sql import type_sql

_PROMOTED: Final = {1: 5, 2: 4, 4: -5, 8: 3}
"""By an integer's bytes: an unsigned number beyond the signed type's greatest has the next type. MEDIUMINT has room."""
_TYPES: Final = ("INSERT", "UPDATE", "DELETE")


def _flag(name: str, default: bool) -> Any:
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True)
class CanalOptions:
    """TiCDC's names; the defaults are alibaba/canal's."""

    tidb: bool = _flag("enable-tidb-extension", False)
    only_updated: bool = _flag("only-output-updated-columns", True)


class Canal:
    """Makes canal-json."""

    name: ClassVar[str] = "canal"
    keyed: ClassVar[bool] = False

    def __init__(self, options: CanalOptions) -> None:
        self.options = options

    def before(self, rows: TableRows) -> list[Message]:
        """Return nothing: each message says what it needs."""
        return []

    def ddl(self, ddl: Ddl, now_ns: int) -> list[Message]:
        """Return the message of a statement."""
        schema, table = ddl.names[0] if ddl.names else (ddl.schema, "")
        value: dict[str, Any] = {
            "id": 0, "database": schema, "table": table, "pkNames": None, "isDdl": True,
            "type": canal_kind(ddl.statement.ddl), "es": ddl.begin.commit_us // 1000, "ts": now_ns // 1_000_000,
            "sql": ddl.text, "sqlType": None, "mysqlType": None, "data": None, "old": None,
        }  # fmt: skip
        if self.options.tidb:
            value["_tidb"] = {"commitTs": ddl.key.commit_tso}
        return [Message("ddl", schema, table, None, j.literal(value).encode())]

    def rows(self, rows: TableRows, now_ns: int) -> Encoded:
        """Return a message for each row. Raises UnsupportedInput and ConversionFailed."""
        rows.check_whole(self.name)
        found: Encoded = guarded(rows, lambda: self._rows(rows, now_ns))
        return found

    def _rows(self, rows: TableRows, now_ns: int) -> Encoded:
        table, names = rows.table, rows.names
        before, after = ([_texts(rows, side, place) for place in rows.places] for side in (BEFORE, AFTER))
        there = pa.array(rows.there(AFTER))
        now = [pc.if_else(there, new, old) for new, old in zip(after, before, strict=True)]
        keys = [table.columns[place].name for place in rows.key_places]
        head = {"id": 0, "database": table.schema, "table": table.name, "pkNames": keys or None, "isDdl": False}
        kinds = pa.array(_TYPES).take(pa.array(rows.ops.astype(np.int64)))
        mysql = {column.name: type_sql(column.type) for column in rows.columns}
        parts = [
            j.literal(head)[:-1], ',"type":"', kinds, '","es":', j.numbers(pa.array(rows.commit_us // 1000)),
            f',"ts":{now_ns // 1_000_000},"sql":"","sqlType":', self._sql_types(rows, there),
            f',"mysqlType":{j.literal(mysql)},"data":[', j.objects(names, now), '],"old":', self._old(rows, before),
        ]  # fmt: skip
        if self.options.tidb:
            parts += [',"_tidb":{"commitTs":', j.numbers(pa.array(np.maximum(rows.commit_tsos, 0))), "}"]
        values = j.joined([*parts, "}"])
        return Encoded(row_keys(rows, now), values, np.arange(len(rows)))

    def _old(self, rows: TableRows, before: list[Any]) -> Any:
        """Return the values before each update, of the columns that it changes or of all; null of other operations."""
        whole = sparse(rows, before) if self.options.only_updated else j.objects(rows.names, before)
        shown = j.joined(["[", whole, "]"])
        return pc.if_else(pa.array(rows.ops == UPDATE), shown, pa.scalar(None, shown.type))

    def _sql_types(self, rows: TableRows, there: Any) -> Any:
        parts: list[Any] = []
        for number, (place, column) in enumerate(zip(rows.places, rows.columns, strict=True)):
            parts += ["{" if number == 0 else ",", j.literal(column.name), ":"]
            code, kind = forms_of(column.type, "in canal-json").canal, column.type
            if kind.unsigned and kind.family is Family.INTEGER and kind.facts.size in _PROMOTED:
                _, most = replace(kind, unsigned=False).limits
                promoted = _PROMOTED[kind.facts.size]
                value = pc.if_else(there, rows.column(AFTER, place), rows.column(BEFORE, place))
                beyond = pc.fill_null(pc.greater(value, pa.scalar(most, value.type)), False)
                parts.append(pc.if_else(beyond, str(promoted), str(code)))
            else:
                parts.append(str(code))
        return "".join([*parts, "}"]) if all(isinstance(part, str) for part in parts) else j.joined([*parts, "}"])


def _texts(rows: TableRows, side: int, place: int) -> Any:
    """Return a column's values as JSON strings."""
    return value_texts(rows, side, place, j.latin1)
