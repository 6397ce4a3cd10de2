"""The messages that a format makes of a merged log, as JSON."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.log.where import Where
from binlog_merge.messages.message import format_of
from binlog_merge.messages.read import PART_BYTES, Ddl, Reading, placing_of

Made = tuple[str, Any, Any]


def made(
    merged: Path,
    form: str,
    tables: Collection[str] = (),
    part_bytes: int = PART_BYTES,
    where: Where | None = None,
    **options: str,
) -> Iterator[Made]:
    """Yield (table, key, value) of each message, in the log's order; `ddl` stands for a statement's table.

    `transaction` does for that of a BEGIN or END. With `where` of the rows alone that satisfy the condition.
    """
    maker = format_of(form, {name.replace("__", "."): value for name, value in options.items()})
    with opened_log(merged) as folder:
        binlog = Log(folder)
        wanted = lambda schema, table: not tables or table in tables  # noqa: E731
        placing = placing_of(maker)
        reading = Reading(binlog, 1, binlog.last_rank, wanted, part_bytes=part_bytes, where=where, placing=placing)
        for piece in reading.pieces():
            if isinstance(piece, Ddl):
                for message in maker.ddl(piece, 0):
                    yield "ddl", _json(message.key), _json(message.value)
                continue
            found: list[Made] = []
            orders = []
            for rows in piece.tables:
                name = f"{rows.table.schema}.{rows.table.name}"
                for message in maker.before(rows):
                    yield name, _json(message.key), _json(message.value)
                encoded = maker.rows(rows, 0)
                aside = [False] * len(encoded) if encoded.aside is None else encoded.aside.tolist()
                for key, value, other in zip(encoded.keys.to_pylist(), encoded.values.to_pylist(), aside, strict=True):
                    found.append(("transaction" if other else name, _json(key), _json(value)))
                orders += rows.order[encoded.rows].tolist()
            yield from (found[at] for at in sorted(range(len(found)), key=orders.__getitem__))


def _json(text: Any) -> Any:
    return None if text is None else json.loads(text)
