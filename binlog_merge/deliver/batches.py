"""Messages of a part of a log in the log's order, over all its tables."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from binlog_merge.messages.message import Format, Schemas
from binlog_merge.messages.rows import TableRows


class Outgoing(NamedTuple):
    """A message of a row: whose it is, its key and value, the facts of its transaction, its definition's number.

    `aside`: it tells where the row's transaction begins or ends. `schemas` are those of a format that has any.
    """

    schema: str
    table: str
    key: bytes | None
    value: bytes | None
    rank: int
    gtid: str | None
    order_key: str | None
    version: int = 0
    schemas: Schemas | None = None
    aside: bool = False


def outgoing(maker: Format, tables: Sequence[TableRows], now_ns: int) -> Iterator[Outgoing]:
    """Yield the messages of rows, in the order of the log. Raises what the format does."""
    made: list[list[Outgoing]] = []
    orders = []
    for rows in tables:
        encoded = maker.rows(rows, now_ns)
        keys, values = (_bytes(array) for array in (encoded.keys, encoded.values))
        ranks, gtids, order_keys = rows.ranks.tolist(), rows.gtids.to_pylist(), rows.order_keys.to_pylist()
        schema, table = rows.table.schema, rows.table.name
        numbers, version = encoded.rows.tolist(), rows.changes.table.table_id
        messages = [
            Outgoing(schema, table, key, value, ranks[i], gtids[i], order_keys[i], version, encoded.schemas)
            for key, value, i in zip(keys, values, numbers, strict=True)
        ]
        if encoded.aside is not None:
            for place in np.flatnonzero(encoded.aside).tolist():
                messages[place] = messages[place]._replace(schemas=encoded.aside_schemas, aside=True)
        made.append(messages)
        orders.append(rows.order[encoded.rows])
    if len(made) == 1:
        yield from made[0]
        return
    whole = [message for messages in made for message in messages]
    for place in np.argsort(np.concatenate(orders), kind="stable").tolist():
        yield whole[place]


def _bytes(array: object) -> list[bytes | None]:
    """Return texts as bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return list(pc.cast(array, pa.large_binary()).to_pylist())
