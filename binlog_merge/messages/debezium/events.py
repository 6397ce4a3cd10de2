"""Rows as Debezium's change events: an envelope for each, a key, and tombstones; BEGIN and END if they are asked for.

An update that changes the primary key becomes three messages: a delete of the old key, its tombstone, and a create
with the new key. Source: RelationalChangeRecordEmitter of Debezium 3.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.messages import json_text as j
from binlog_merge.messages.debezium.ddl import schema_change
from binlog_merge.messages.debezium.options import VERSION, DebeziumOptions, field_names
from binlog_merge.messages.debezium.schema import envelope_schema, key_schema
from binlog_merge.messages.debezium.types import kind_of
from binlog_merge.messages.message import Encoded, Message, Schemas
from binlog_merge.messages.read import Ddl, Weights
from binlog_merge.messages.rows import DELETE, UPDATE, TableRows, guarded, typed
from snapshot_store.model import Table


@dataclass(frozen=True, slots=True)
class _Known:
    """Of a definition: the fields of its columns, the schemas, and the texts of these that messages begin with."""

    fields: tuple[str, ...]
    key_fields: tuple[str, ...]
    schemas: Schemas
    key_head: str
    value_head: str

    @classmethod
    def of(cls, rows: TableRows, options: DebeziumOptions) -> "_Known":
        table, columns = rows.table, rows.columns
        keys = [table.columns[place] for place in rows.key_places]
        schemas = Schemas(key_schema(table, keys, options) if keys else None, envelope_schema(table, columns, options))
        heads = ("", "")
        if options.schemas:
            key, value = (f'{{"schema":{j.literal(schema)},"payload":' for schema in (schemas.key, schemas.value))
            heads = (key, value)
        fields, key_fields = (tuple(field_names(table, each, options)) for each in (columns, keys))
        return cls(fields, key_fields, schemas, *heads)


class Debezium:
    """Makes Debezium's messages; it remembers the schemas of the definitions that it has seen."""

    name: ClassVar[str] = "debezium"
    keyed: ClassVar[bool] = False

    def __init__(self, options: DebeziumOptions) -> None:
        self.options = options
        self.weights: Weights | None = self._weights if options.transactions else None
        self._definitions: dict[tuple[Table, tuple[int, ...]], _Known] = {}

    def before(self, rows: TableRows) -> list[Message]:
        """Return nothing: each message says what it needs."""
        return []

    def ddl(self, ddl: Ddl, now_ns: int) -> list[Message]:
        """Return the schema change event of a statement, for the topic of the prefix alone."""
        return schema_change(ddl, now_ns, self.options) if self.options.schema_changes else []

    def rows(self, rows: TableRows, now_ns: int) -> Encoded:
        """Return change events. Raises UnsupportedInput and ConversionFailed."""
        rows.check_whole(self.name)
        found: Encoded = guarded(rows, lambda: self._rows(rows, now_ns))
        return found

    def _rows(self, rows: TableRows, now_ns: int) -> Encoded:
        known = self._known(rows)
        before, after = (self._image(rows, side, known.fields) for side in (BEFORE, AFTER))
        keys = [self._keys(rows, side, known) for side in (BEFORE, AFTER)]
        source, times = self._source(rows), self._times(now_ns)
        ids = ids_of(rows) if self.options.transactions else None

        def events(was: Any, became: Any, op: Any, later: int = 0) -> Any:
            block = "null" if ids is None else blocks(rows, ids, later)
            return j.joined(
                [known.value_head, '{"before":', was, ',"after":', became, ',"source":', source, ',"transaction":',
                 block, ',"op":"', op, '",', times, "}", "}" if known.value_head else ""]
            )  # fmt: skip

        letters = pa.array(["c", "u", "d"]).take(pa.array(rows.ops.astype(np.int64)))
        values = events(before, after, letters)
        key = pc.if_else(pa.array(rows.there(AFTER)), keys[AFTER], keys[BEFORE])
        moved, found = self._moved(rows), Ordering()
        if moved.any():
            count, at = len(rows), np.flatnonzero(moved)
            nothing = pa.nulls(count, values.type)
            found.take(CHANGE, np.flatnonzero(~moved), values, key)
            found.take(CHANGE, at, events(before, nothing, pa.repeat("d", count)), keys[BEFORE])
            found.take(CREATED, at, events(nothing, after, pa.repeat("c", count), 1), keys[AFTER])
        else:
            found.add(CHANGE, np.arange(len(rows)), values, key)
        gone = np.flatnonzero((rows.ops == DELETE) | moved)
        if self.options.tombstones and len(gone) and rows.key_places:
            found.take(TOMBSTONE, gone, pa.nulls(len(rows), values.type), keys[BEFORE])
        if ids is not None:
            for place, at, made in (
                (BEGIN, begin_rows(rows), begins),
                (END, end_rows(rows), ends),
            ):
                found.add(place, at, *(self._headed(part, i) for i, part in enumerate(made(rows, ids, at))))
        return found.made(known.schemas, SCHEMAS if ids is not None else None)

    def _headed(self, payloads: Any, part: int) -> Any:
        """Return values (0) or keys (1) of transactions, with their schema if it is asked for."""
        if not self.options.schemas:
            return payloads
        schema = SCHEMAS.key if part else SCHEMAS.value
        return j.joined([f'{{"schema":{j.literal(schema)},"payload":', payloads, "}"])

    def _weights(self, rows: TableRows) -> Any:
        """Return as how many changes each row counts: a row whose key changes is deleted and created."""
        return self._moved(rows).astype(np.int64) + 1

    def _known(self, rows: TableRows) -> "_Known":
        """Return what is the same for all rows of a definition."""
        known = rows.table, rows.places
        if known not in self._definitions:
            self._definitions[known] = _Known.of(rows, self.options)
        return self._definitions[known]

    def _image(self, rows: TableRows, side: int, fields: Sequence[str]) -> Any:
        arrays = [self._column(rows, side, place) for place in rows.places]
        return j.objects(fields, arrays, rows.there(side))

    def _column(self, rows: TableRows, side: int, place: int) -> Any:
        column = rows.table.columns[place]
        kind = kind_of(column, self.options)
        array, wrong = typed(rows, side, place)
        texts = kind.values(array)
        if wrong is not None and not column.nullable and kind.epoch is not None:
            return pc.if_else(pa.array(wrong), pa.scalar(kind.epoch, texts.type), texts)
        return texts

    def _keys(self, rows: TableRows, side: int, known: "_Known") -> Any:
        if not rows.key_places:
            return pa.nulls(len(rows), pa.large_string())
        found = j.objects(known.key_fields, [self._column(rows, side, place) for place in rows.key_places])
        return j.joined([known.key_head, found, "}"]) if known.key_head else found

    def _moved(self, rows: TableRows) -> Any:
        """Return a mask of the updates that change the key."""
        moved = np.zeros(len(rows), bool)
        for place in rows.key_places:
            moved |= rows.changed(place)
        return moved & (rows.ops == UPDATE)

    def _source(self, rows: TableRows) -> Any:
        micros = rows.commit_us
        head = {"version": VERSION, "connector": "mysql", "name": self.options.topic_prefix}
        return j.joined(
            [
                j.literal(head)[:-1], ',"ts_ms":', j.numbers(pa.array(micros // 1000)),
                f',"snapshot":"false","db":{j.literal(rows.table.schema)},"sequence":null,"ts_us":',
                j.numbers(pa.array(micros)), ',"ts_ns":', j.numbers(pa.array(micros * 1000)),
                f',"table":{j.literal(rows.table.name)},"server_id":', j.numbers(pa.array(rows.server_ids)),
                ',"gtid":', j.quoted(rows.gtids), f',"file":{j.literal(rows.file)},"pos":',
                j.numbers(pa.array(rows.positions)), ',"row":', j.numbers(pa.array(rows.row_numbers)),
                ',"thread":', j.numbers(rows.thread_ids), ',"query":null}',
            ]
        )  # fmt: skip

    def _times(self, now_ns: int) -> str:
        return f'"ts_ms":{now_ns // 1_000_000},"ts_us":{now_ns // 1000},"ts_ns":{now_ns}'


BEGIN, CHANGE, TOMBSTONE, CREATED, END = range(5)
"""The places of a row's messages."""
_PLACES: Final = 8


@dataclass
class Ordering:
    """Collects messages; `made` puts them into their order."""

    _values: list[Any] = field(default_factory=list)
    _keys: list[Any] = field(default_factory=list)
    _places: list[Any] = field(default_factory=list)
    _aside: list[Any] = field(default_factory=list)

    def take(self, place: int, at: Any, values: Any, keys: Any) -> None:
        """Take the messages of the rows `at` among those of all rows."""
        chosen = pa.array(at)
        self.add(place, at, values.take(chosen), keys.take(chosen))

    def add(self, place: int, at: Any, values: Any, keys: Any) -> None:
        """Take messages, one for each row of `at`."""
        self._values.append(pc.cast(values, pa.large_string()))
        self._keys.append(pc.cast(keys, pa.large_string()))
        self._places.append(at * _PLACES + place)
        self._aside.append(np.full(len(at), place in (BEGIN, END)))

    def made(self, schemas: Schemas, aside: Schemas | None) -> Encoded:
        """Return all messages."""
        places = np.concatenate(self._places)
        if len(self._places) == 1:
            return Encoded(self._keys[0], self._values[0], places // _PLACES, schemas)
        turn = np.argsort(places, kind="stable")
        values, keys = (pa.concat_arrays(parts).take(pa.array(turn)) for parts in (self._values, self._keys))
        marked = np.concatenate(self._aside)[turn] if aside is not None else None
        return Encoded(keys, values, places[turn] // _PLACES, schemas, marked, aside)


def ids_of(rows: TableRows) -> Any:
    """Return the id of each row's transaction."""
    gtids = rows.gtids
    if gtids.null_count == 0:
        return gtids
    places = pa.array(rows.begun_at).cast(pa.string())
    return pc.coalesce(gtids, pc.binary_join_element_wise(f"file={rows.file},pos=", places, ""))


def blocks(rows: TableRows, ids: Any, later: int = 0) -> Any:
    """Return the block of each row; `later` is 1 for the second one of the changes that a row makes."""
    total, own = (pa.array(numbers + 1 + later) for numbers in (rows.place.offsets, rows.place.own))
    return j.joined(
        ['{"id":', j.quoted(ids), ',"total_order":', j.numbers(total), ',"data_collection_order":', j.numbers(own), "}"]
    )


def begin_rows(rows: TableRows) -> Any:
    """Return the numbers of the rows with which transactions begin."""
    return np.flatnonzero(rows.place.offsets == 0)


def end_rows(rows: TableRows) -> Any:
    """Return the numbers of the rows with which transactions end."""
    return np.flatnonzero(rows.place.last)


def begins(rows: TableRows, ids: Any, at: Any) -> tuple[Any, Any]:
    """Return the values and keys of the BEGINs of rows."""
    return _messages(rows, ids, at, "BEGIN", [',"event_count":null,"data_collections":null'])


def ends(rows: TableRows, ids: Any, at: Any) -> tuple[Any, Any]:
    """Return the values and keys of the ENDs of rows."""
    counts = [rows.place.counts[rank] for rank in rows.ranks[at].tolist()]
    tables = [
        [{"data_collection": f"{schema}.{table}", "event_count": count} for (schema, table), count in counted.items()]
        for counted in counts
    ]
    shown = pa.array(
        [
            f',"event_count":{counted.total()},"data_collections":{j.literal(each)}'
            for counted, each in zip(counts, tables, strict=True)
        ],
        pa.large_string(),
    )
    return _messages(rows, ids, at, "END", [shown])


def _messages(rows: TableRows, ids: Any, at: Any, status: str, parts: list[Any]) -> tuple[Any, Any]:
    id_ = j.quoted(ids.take(pa.array(at)))
    millis = j.numbers(pa.array(rows.commit_us[at] // 1000))
    values = j.joined([f'{{"status":"{status}","id":', id_, *parts, ',"ts_ms":', millis, "}"])
    return values, j.joined(['{"id":', id_, "}"])


def _field(name: str, kind: str, optional: bool = False) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


_COLLECTION: Final = {
    "type": "struct",
    "fields": [_field("data_collection", "string"), _field("event_count", "int64")],
    "optional": True,
    "name": "event.collection",
    "version": 1,
}
SCHEMAS: Final = Schemas(
    {
        "type": "struct",
        "fields": [_field("id", "string")],
        "optional": False,
        "name": "io.debezium.connector.common.TransactionMetadataKey",
        "version": 1,
    },
    {
        "type": "struct",
        "fields": [
            _field("status", "string"),
            _field("id", "string"),
            _field("event_count", "int64", True),
            {"type": "array", "items": _COLLECTION, "optional": True, "field": "data_collections"},
            _field("ts_ms", "int64"),
        ],
        "optional": False,
        "name": "io.debezium.connector.common.TransactionMetadataValue",
        "version": 1,
    },
)
"""The schemas of BEGIN and END."""
