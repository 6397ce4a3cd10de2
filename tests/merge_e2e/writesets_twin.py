"""What the transactions of a merged file depend on, in plain Python: MySQL's rules, on decoded rows.

Shares the parsing of events with the product, and what a schema store says; no hashes, and no kernel.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.rows import ABSENT, RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.reshape.witness import table_difference
from snapshot_store.history import SchemaHistory
from snapshot_store.model import Table
from snapshot_store.mysql.text.weights import is_utf8, weights_name
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.reshape.weighed import weighed

MOST = 25_000
UNKNOWN, NOTHING = object(), object()
ROWS = (23, 24, 25, 30, 31, 32, 39)
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
WRITES, UPDATES = (23, 30), (24, 31, 39)


def twin(data: bytes, out: Path) -> list[tuple[int, int]]:
    """Return (sequence_number, last_committed) of a file's transactions; `out` has the schema store."""
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        history = store.load_history()
    return list(Twin(history).run(data))


def _groups(data: bytes) -> Iterator[list[tuple[int, bytes]]]:
    group: list[tuple[int, bytes]] = []
    for event in walk(data):
        body = bytes(event.body)
        if event.type_code in (33, 34) and group:
            yield group
            group = []
        if group or event.type_code in (33, 34):
            group.append((event.type_code, body))
    if group:
        yield group


class Twin:
    def __init__(self, history: SchemaHistory) -> None:
        self.schemas = history
        self.last: dict[Any, int] = {}
        self.start = 0

    def run(self, data: bytes) -> Iterator[tuple[int, int]]:
        for group in _groups(data):
            (number,) = struct.unpack_from("<q", group[0][1], 34)
            texts = [body[13:] for kind, body in group if kind == 2]
            if [bool(text.endswith(b"\0BEGIN")) for text in texts] != [True]:
                yield number, number - 1
                self.last, self.start = {}, number
                continue
            yield number, self.transaction(number, group)

    def transaction(self, number: int, group: list[tuple[int, bytes]]) -> int:
        (text,) = [found[1] for kind, body in group if kind == 29 and (found := re.search(rb"CTS::(\d{54})", body))][:1]
        key = OrderKey.parse(text.decode())
        touched, read, in_order, barrier = set[Any](), set[Any](), False, False
        maps: dict[int, TableMap] = {}
        for kind, body in group:
            if kind == 19:
                table_map = TableMap.parse(body)
                maps[table_map.table_id] = table_map
            elif kind in ROWS and int.from_bytes(body[:6], "little") in maps:
                table_map = maps[int.from_bytes(body[:6], "little")]
                table = self.table(table_map, key)
                if table is None:
                    barrier = True
                    continue
                for before, after in iter_rows(RowsEvent.parse(kind, body), table_map):
                    row = self.row(kind, table, table_map, before, after, key)
                    touched |= row[0]
                    read |= row[1]
                    in_order |= row[2]
                    barrier |= row[3]
        known = [self.last.get(one, 0) for one in (*touched, *read)]
        parent = max([self.start, *known])
        for one in touched:
            self.last[one] = number
        if barrier or in_order:
            parent = number - 1
        if barrier or len(self.last) > MOST:
            self.last, self.start = {}, number
        return parent

    def table(self, table_map: TableMap, key: OrderKey) -> Table | None:
        version = self.schemas.at(table_map.schema, table_map.table, key)
        if version is None or version.opaque or version.table is None:
            return None
        return None if table_difference(version.table, table_map) else version.table

    def row(self, kind: int, table: Table, table_map: TableMap, before: Any, after: Any, key: OrderKey) -> Any:
        touched, read, in_order, barrier = set[Any](), set[Any](), False, False
        if kind in WRITES:
            before = None
        whole = after
        if before is not None and after is not None:
            whole = tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))
        name = (table.schema.lower(), table.name.lower())
        unique = [index for index in table.indexes if index.unique or index.name == "PRIMARY"]
        usable = [index for index in unique if all(self.comparable(table, part) for part in index.parts)]
        identity = next((index for index in usable if self.identifies(table, index)), None)
        in_order |= identity is None or len(usable) < len(unique)
        for index in usable:
            columns = [(table.index_of(str(part.column)), part.length) for part in index.parts]
            label = ("key", *name, index.name.lower())
            changed = before is None or whole is None or any(before[c] != whole[c] for c, _ in columns)
            if not changed and index is not identity:
                continue
            for image in (before, whole) if changed else (before,):
                if image is None:
                    continue
                value = self.value(table, table_map, columns, image)
                if value is UNKNOWN or (value is NOTHING and index is identity):
                    touched.add((label, UNKNOWN))
                    in_order |= index is identity or image is not before
                elif value is not NOTHING:
                    touched.add((label, value))
                    read.add((label, UNKNOWN))
        for columns in self.referenced(name, key):
            places = [(table.index_of(column), None) for column in columns]
            label = ("referenced", *name, *columns)
            if before is not None:
                barrier |= whole is None or any(before[c] != whole[c] for c, _ in places)
            else:
                value = self.value(table, table_map, places, whole, refers=True)
                if value is UNKNOWN:
                    touched.add((label, UNKNOWN))
                    in_order = True
                elif value is not NOTHING:
                    touched.add((label, value))
                    read.add((label, UNKNOWN))
        for foreign in table.foreign_keys:
            pairs = sorted(zip(foreign.referenced, foreign.columns, strict=True), key=lambda pair: pair[0].lower())
            places = [(table.index_of(own), None) for _, own in pairs]
            if whole is None or (before is not None and all(before[c] == whole[c] for c, _ in places)):
                continue
            parent = ((foreign.table[0] or table.schema).lower(), foreign.table[1].lower())
            label = ("referenced", *parent, *(column.lower() for column, _ in pairs))
            value = self.value(table, table_map, places, whole, refers=True)
            if value is UNKNOWN:
                in_order = True
            elif value is not NOTHING:
                read |= {(label, value), (label, UNKNOWN)}
        return touched, read, in_order, barrier

    def identifies(self, table: Table, index: Any) -> bool:
        return index.name == "PRIMARY" or not any(table.columns[table.index_of(p.column)].nullable for p in index.parts)

    def comparable(self, table: Table, part: Any) -> bool:
        place = None if part.column is None else table.index_of(part.column)
        return place is not None and table.columns[place].type.name not in ("json", "geometry", "vector")

    def referenced(self, name: tuple[str, str], key: OrderKey) -> set[tuple[str, ...]]:
        found = set()
        for schema, table in {(v.schema, v.name) for v in self.schemas.versions if v.node is None}:
            version = self.schemas.at(schema, table, key)
            for foreign in version.table.foreign_keys if version is not None and version.table is not None else ():
                if ((foreign.table[0] or schema).lower(), foreign.table[1].lower()) == name:
                    found.add(tuple(sorted(column.lower() for column in foreign.referenced)))
        return found

    def value(self, table: Table, table_map: TableMap, columns: Any, image: Any, refers: bool = False) -> Any:
        values = [self.cell(table, table_map, place, length, image[place], refers) for place, length in columns]
        return NOTHING if NOTHING in values else UNKNOWN if UNKNOWN in values else tuple(values)

    def cell(self, table: Table, table_map: TableMap, place: int, length: int | None, cell: Any, refers: bool) -> Any:
        """`refers`: of foreign keys, of which the one side may be filled up in a row, and the other not."""
        if cell is None:
            return NOTHING
        if cell is ABSENT or not isinstance(cell, bytes | memoryview):
            return UNKNOWN
        kind = table.columns[place].type
        if (
            kind.name not in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
            or kind.charset == "binary"
        ):
            if kind.name in ("float", "double", "decimal"):
                value = decode_cell(
                    table_map.types[place], table_map.metas[place], bytes(cell), kind.unsigned, "binary"
                )
                return value + 0 if value else 0
            data = bytes(cell)
            if refers and kind.name in ("binary", "varbinary"):
                text = decode_cell(table_map.types[place], table_map.metas[place], data, False, "binary")
                assert isinstance(text, bytes)
                return text.rstrip(b"\0")
            if kind.name in ("varbinary", "blob", "tinyblob", "mediumblob", "longblob") and length is not None:
                text = decode_cell(table_map.types[place], table_map.metas[place], data, False, "binary")
                assert isinstance(text, bytes)
                return (
                    (UNKNOWN if not re.fullmatch(rb"[ -~]*", text) else text[:length]) if len(text) > length else text
                )
            return data
        raw = decode_cell(table_map.types[place], table_map.metas[place], bytes(cell), False, "binary")
        assert isinstance(raw, bytes)
        collation = kind.collation or ""
        if (name := weights_name(collation)) is not None:
            text = raw.decode("utf-8" if is_utf8(collation) else "latin-1")
            found = weighed(text if length is None else text[:length], name)
            if found is None:
                return UNKNOWN
            spaces = () if "_0900_" in collation and not refers else weighed(" ", name)
            while found and found[-1:] == spaces:
                found.pop()
            return tuple(found)
        if length is not None and len(raw) > length and re.fullmatch(rb"[ -~]*", raw) is None:
            return UNKNOWN
        raw = raw if length is None else raw[:length]
        return raw if "_0900_" in collation and not refers else raw.rstrip(b" ")
