"""Rows as data and messages say what a server says that has applied the log: its SELECT of each row is the last change.

The server applies the log in stages that end before each statement, since the values that a statement makes are its own
matter: so rows are compared that were reshaped while a DDL was on its way.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import binlog_merge
from binlog_merge.log.log import Log
from binlog_merge.log.where import Where
from binlog_merge.messages.message import format_of
from binlog_merge.messages.read import Part, Reading
from tests.ask.at_server import BYTES, SHAPES, ServerTable, key_of, server_tables, stages
from tests.effort import keeping
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import merge
from tests.merge_e2e.tables import begin_as
from tests.messages.record import WHOLE
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql
CASES = ("all-types", "reshape-numbers", "reshape-strings", "reshape-temporal", "reshape-charsets", "reshape-others",
         "reshape-pads", "reshape-clamp", "modify-in-flight", "reorder-in-flight", "row-image-noblob", "partial-json",
         "strange-names", "three-nodes-online-ddl")  # fmt: skip
NOT_WHOLE = ("row-image-noblob", "partial-json")
"""Cases with images that lack columns: a message has whole rows."""
Image = dict[str, Any]
Change = tuple[Image | None, Image | None, frozenset[str]]
"""The values before and after, and the columns whose value after is not in the log."""


# All types; rows whose texts and times are reshaped, and that are padded; and images in part.
KEPT = ("all-types", "reshape-strings", "partial-json")


@pytest.mark.parametrize("name", keeping(KEPT, CASES))
def test_the_last_change_of_each_row_is_what_the_server_has(
    name: str, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    merge(case_named(name) / "cluster.yaml", tmp_path)
    begin_as(case_named(name), mysql_server)
    whole = {form: partial(read, where=WHOLE.get(name)) for form, read in MESSAGES.items()}
    readers = {"changes": changes, "all tables": all_tables} | ({} if name in NOT_WHOLE else whole)
    compared = dict.fromkeys(readers, 0)
    for first, last in stages(tmp_path, mysql_server):
        for table in server_tables(mysql_server):
            for reader, read in readers.items():
                found = folded(read(tmp_path, table, first, last), table)
                compared[reader] += _compare(reader, found, table, mysql_server)
    assert all(compared.values()), compared


def folded(rows: Iterator[Change], table: ServerTable) -> dict[Any, tuple[Image, set[str]] | None]:
    """Return the last values of each row by key, and the columns of it that are not known; None if it is gone."""
    last: dict[Any, tuple[Image, set[str]] | None] = {}
    for before, after, absent in rows:
        known: Image = {}
        unknown = set(table.kinds)
        if before is not None:
            known, unknown = last.get(key_of(before, table.key)) or ({}, unknown)
            last[key_of(before, table.key)] = None
        if after is not None:
            # What is left out is as it was, but for a document: the log may have a difference to it.
            unknown |= {name for name in absent if table.kinds.get(name) == "json"}
            values = after | {name: known[name] for name in absent - unknown}
            last[key_of(values, table.key)] = values, set(absent & unknown)
    return last


def _compare(reader: str, last: dict[Any, Any], table: ServerTable, server: MySqlServer) -> int:
    compared = 0
    for place, state in last.items():
        assert (state is not None) == (place in table.rows), (reader, table.name, place)
        if state is None:
            continue
        values, absent = state
        for column in table.columns:
            if column.name in absent or column.name not in values:
                continue
            theirs = table.rows[place][column.name]
            same = _same(values[column.name], theirs, column.kind, server)
            assert same, (reader, table.name, place, column, values[column.name], theirs)
            compared += 1
    return compared


def changes(merged: Path, table: ServerTable, first: int, last: int) -> Iterator[Change]:
    """Yield the rows of a table, its columns as of the stage."""
    uuid = Log(merged).cluster_uuid
    found = binlog_merge.changes(
        merged, (table.schema, table.name), start=f"{uuid}:{first}", stop=f"{uuid}:{last}", temporal="text"
    )
    for row in (row for batch in found for row in batch.to_pylist()):
        yield row["before"], row["after"], frozenset(row["after_absent"] or ())


def all_tables(merged: Path, table: ServerTable, first: int, last: int) -> Iterator[Change]:
    """Yield the rows of a table from JSON texts; their bytes are 0x…"""
    uuid = Log(merged).cluster_uuid
    found = binlog_merge.changes(merged, start=f"{uuid}:{first}", stop=f"{uuid}:{last}")
    for row in (row for batch in found for row in batch.to_pylist()):
        if (row["schema"], row["table"]) == (table.schema, table.name):
            before, after = (None if row[s] is None else json.loads(row[s]) for s in ("before", "after"))
            for image in filter(None, (before, after)):
                for name, kind in table.kinds.items():
                    if kind in (*BYTES, *SHAPES) and image[name] is not None:
                        image[name] = bytes.fromhex(image[name][2:])
            yield before, after, frozenset(row["after_absent"] or ())


def messages(form: str, images: Callable[[Any], tuple[Any, Any]], cell: Callable[[Any, str], Any]) -> Any:
    """Return a reader of a format's messages: `images` of a value, and what a cell of a type says."""

    def read(merged: Path, table: ServerTable, first: int, last: int, where: str | None) -> Iterator[Change]:
        names = [c.name for c in table.columns if not (form == "maxwell" and c.kind == "vector")]
        maker = format_of(form, {})
        wanted = lambda schema, name: (schema, name) == (table.schema, table.name)  # noqa: E731
        condition = None if where is None else Where(where)
        for part in Reading(Log(merged), first, last, wanted, where=condition, columns=names).pieces():
            for rows in part.tables if isinstance(part, Part) else ():
                for text in maker.rows(rows, 0).values.to_pylist():
                    before, after = images(json.loads(text, parse_float=Decimal))
                    cells = (
                        image and {n: v if v is None and table.kinds[n] != "json" else cell(v, table.kinds[n])
                                   for n, v in image.items()}
                        for image in (before, after)
                    )  # fmt: skip
                    yield next(cells), next(cells), frozenset()

    return read


def _canal(value: Any) -> tuple[Any, Any]:
    data, old = value["data"][0], (value["old"] or [{}])[0]
    return {
        "INSERT": (None, data), "DELETE": (data, None), "UPDATE": ({**data, **old}, data),
    }[value["type"]]  # fmt: skip


def _maxwell(value: Any) -> tuple[Any, Any]:
    data, old = value["data"], value.get("old", {})
    return {"insert": (None, data), "delete": (data, None), "update": ({**data, **old}, data)}[value["type"]]


@dataclass(frozen=True)
class Document:
    """A document that stands in a message as it is; JSON's null is no other than NULL there."""

    value: Any


def _maxwell_cell(value: Any, kind: str) -> Any:
    if kind == "json":
        return Document(value)
    return base64.b64decode(value) if kind in BYTES else value


def _open(value: Any) -> tuple[Any, Any]:
    return value.get("d") or value.get("p"), value.get("u")


def _open_cell(cell: Any, kind: str) -> Any:
    value = cell["v"]
    if value is None or (kind not in (*BYTES, *SHAPES) and cell["t"] not in (249, 250, 251, 252)):
        return value
    if cell["t"] in (15, 254):  # (VAR)BINARY: as Go quotes them
        from tests.messages.test_others import _unquoted

        return _unquoted(value)
    raw = base64.b64decode(value)
    return raw if kind in (*BYTES, *SHAPES) else raw.decode()


def _simple_cell(value: Any, kind: str) -> Any:
    if isinstance(value, dict):
        assert value["location"] == "UTC"
        return value["value"]
    return base64.b64decode(value) if kind in (*BYTES, *SHAPES) else value


MESSAGES = {
    "canal": messages("canal", _canal, lambda v, kind: v.encode("latin-1") if kind in (*BYTES, *SHAPES) else v),
    "maxwell": messages("maxwell", _maxwell, _maxwell_cell),
    "open-protocol": messages("open-protocol", _open, _open_cell),
    "simple": messages("simple", lambda v: (v.get("old"), v.get("data")), _simple_cell),
}


def _same(ours: Any, theirs: Any, kind: str, server: MySqlServer) -> bool:
    """Return whether a value is that of a server, whichever way a format writes values of its type."""
    if isinstance(ours, Document):
        return bool(ours.value == (None if theirs is None else _document(theirs)))
    if ours is None or theirs is None:
        return ours is theirs
    if kind == "json":
        return bool(_document(ours) == _document(theirs))
    if kind == "float":
        return bool(np.float32(float(ours)) == np.float32(theirs))
    if kind == "double":
        return float(ours) == float(theirs)
    if kind in ("decimal", "bit", "year", "tinyint", "smallint", "mediumint", "int", "bigint"):
        return Decimal(str(ours)) == Decimal(str(theirs))
    if kind in ("enum", "set"):
        text, number = theirs
        if isinstance(ours, list):
            return ",".join(sorted(ours)) == text
        return str(ours) == str(number) or ",".join(sorted(str(ours).split(","))) == text
    if kind == "vector":
        values = [float(x) for x in (json.loads(ours, parse_int=float) if isinstance(ours, str) else ours)]
        return struct.pack(f"<{len(values)}f", *values) == theirs
    if kind in SHAPES and isinstance(ours, str):  # Well-Known Text, as the server reads it
        srid = int.from_bytes(theirs[:4], "little")
        order = ", 'axis-order=long-lat'" if srid else ""
        ((found,),) = server.query(f"SELECT HEX(ST_GeomFromText('{ours}', {srid}{order}))")
        return bytes.fromhex(found) == theirs
    if isinstance(ours, bytes) and not isinstance(theirs, bytes):
        return ours.decode() == str(theirs)
    return bool(ours == theirs if isinstance(theirs, bytes) else str(ours) == str(theirs))


def _document(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def test_typed_values_are_those_of_the_texts(tmp_path: Path) -> None:
    """DuckDB prints what Arrow has for dates and numbers as MySQL does."""
    import duckdb

    merge(case_named("three-nodes-online-ddl") / "cluster.yaml", tmp_path)
    typed = binlog_merge.changes(tmp_path, "shop.orders")
    text = binlog_merge.changes(tmp_path, "shop.orders", temporal="text")
    both = [
        duckdb.from_arrow(reader).project("after.id, after.price::VARCHAR, after.placed_at::TIMESTAMP").fetchall()
        for reader in (typed, text)
    ]
    assert both[0] == both[1]
    assert len(both[0]) > 100
    assert pa.types.is_timestamp(binlog_merge.changes(tmp_path, "shop.orders").schema.field("commit_time").type)
