"""Debezium's transaction metadata: a BEGIN and an END for each transaction, and a block in each of its changes.

    {"status":"BEGIN","id":"…:7","event_count":null,"data_collections":null,"ts_ms":…}
    {"status":"END","id":"…:7","event_count":3,"data_collections":[{"data_collection":"shop.orders","event_count":3}],…}
    "transaction":{"id":"…:7","total_order":1,"data_collection_order":1}

The id is the GTID, or where BEGIN is. Source: "Transaction metadata" of the manual of Debezium's MySQL connector, and
TransactionMonitor of Debezium 3.6.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.messages import json_text as j
from binlog_merge.messages.message import Schemas
from binlog_merge.messages.rows import TableRows


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
