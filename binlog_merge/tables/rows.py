"""Applies the rows of a segment to a DuckDB table in bulk: the net change of each key, as a DELETE and an INSERT.

In a table with a key (the primary key, else a unique one without NULL), the last write of each key counts. Without a
key, equal rows are counted: if they were inserted more often than deleted, the difference is inserted, or the other way
round. Missing rows and duplicates are an error, as at a replica.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, decode_column
from binlog_merge.binlog.kernels import row_keys as rk
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from binlog_merge.binlog.rows import Cell
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.log.changes import Changes
from binlog_merge.log.whole_json import Key
from binlog_merge.reshape.pads import constant_pad
from binlog_merge.reshape.witness import check_witness
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.tables.types import duckdb_type, for_duckdb, listed, qualified, quoted, told_apart
from binlog_merge.tables.values import array_of, cells_of
from binlog_merge.values.key_values import key_text
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family


class RowRefused(Exception):  # noqa: N818 - named after what happened
    """A row of the log does not fit the table: the row's index among the changes, and the reason.

    `taken`: it would get a key that another row has.
    """

    def __init__(self, row: int, reason: str, taken: bool = False) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.taken = taken


@dataclass(frozen=True)
class TableWriter:
    """Writes changes of a table; `kept` are the indexes of columns that the target has, `facts` are of all columns."""

    connection: Any
    table: Table
    facts: Sequence[ColumnFacts]
    kept: Sequence[int]
    temporal_text: bool = False

    def write(self, changes: Changes, passing: Any) -> None:
        """Apply the rows that pass. Raises RowRefused."""
        if not passing.any():
            return
        key = self._key(changes)
        if key is None:
            self._counted(changes, passing)
        else:
            self._keyed(changes, passing, key)

    @property
    def _name(self) -> str:
        return qualified(self.table.schema, self.table.name)

    def _names(self, columns: Sequence[int]) -> list[str]:
        return [self.table.columns[c].name for c in columns]

    def _key(self, changes: Changes) -> list[int] | None:
        """Return the column indexes of a key that every image holds; None if there is none."""
        kept = set(self.kept)
        for columns in keys_of(self.table):
            held = changes.cut.sizes[:, columns, :] != ABSENT
            if kept.issuperset(columns) and held.all():
                return columns
        return None

    def _keyed(self, changes: Changes, passing: Any, key: list[int]) -> None:
        cut = changes.cut
        count = len(cut)
        keys, prev = np.empty((2 * count, 4), np.int64), np.full(count, rk.NOTHING, np.int64)
        table = np.full(1 << (4 * count).bit_length(), -1, np.int32)
        result = np.zeros(1, np.int64)
        found = rk.collapse(
            cut.buffer, cut.starts, cut.sizes, np.array(key, np.int64), passing.astype(np.uint8), table, keys, prev,
            result,
        )  # fmt: skip
        if found < 0:
            row = -1 - int(found)
            inserts = changes.op_of(row) == "insert"
            said = (
                "the log says that the row is there already" if inserts else "it contradicts what the log says before"
            )
            raise RowRefused(row, f"{said}, {self._shown(changes, row, key)}", inserts)
        keys = keys[:found]
        there = np.flatnonzero(keys[:, rk.K_WAS_THERE] == 1)
        fresh = np.flatnonzero(keys[:, rk.K_WAS_THERE] == 0)
        last = np.flatnonzero(keys[:, rk.K_LAST] >= 0)
        rows = keys[last, rk.K_LAST]
        partial = (cut.sizes[AFTER][list(self.kept)][:, rows] == ABSENT).any() if len(rows) else False
        if len(there):
            self._delete(changes, keys, there, key, partial)
        if len(fresh):
            self._not_there(changes, keys, fresh, key)
        if len(rows):
            self._insert(changes, rows, prev, partial)
        if partial and len(there):
            self.connection.execute("DROP TABLE replay_old")

    def _keys_table(self, changes: Changes, keys: Any, chosen: Any, key: list[int]) -> None:
        """Register the values of keys, with their numbers, as `replay_keys`."""
        arrays: dict[str, Any] = {"replay n ": pa.array(chosen)}
        sides, rows = keys[chosen, rk.K_SIDE], keys[chosen, rk.K_ROW]
        for column in key:
            starts = changes.cut.starts[sides, column, rows]
            sizes = changes.cut.sizes[sides, column, rows]
            arrays[self.table.columns[column].name] = for_duckdb(
                decode_column(self.facts[column], changes.cut.buffer, starts, sizes)
            )
        self.connection.register("replay_arrow", pa.table(arrays))
        self.connection.execute(
            f'CREATE OR REPLACE TEMP VIEW replay_keys AS SELECT "replay n ", {self._casts(key)} FROM replay_arrow'
        )

    def _casts(self, columns: Sequence[int]) -> str:
        """Return SQL that casts columns to the table's types."""
        return ", ".join(
            f"CAST({quoted(column.name)} AS {duckdb_type(column.type, self.temporal_text)}) AS {quoted(column.name)}"
            for column in (self.table.columns[c] for c in columns)
        )

    def _match(self, key: Sequence[int]) -> str:
        return " AND ".join(f"t.{quoted(name)} = k.{quoted(name)}" for name in self._names(key))

    def _delete(self, changes: Changes, keys: Any, there: Any, key: list[int], partial: bool) -> None:
        self._keys_table(changes, keys, there, key)
        if partial:
            columns = listed(self._names(self.kept), "t.")
            self.connection.execute(
                f'CREATE OR REPLACE TEMP TABLE replay_old AS SELECT k."replay n ", {columns} '
                f"FROM {self._name} t JOIN replay_keys k ON {self._match(key)}"
            )
        ((gone,),) = self.connection.execute(
            f"DELETE FROM {self._name} t USING replay_keys k WHERE {self._match(key)}"
        ).fetchall()
        if gone == len(there):
            return
        # What was there is to be seen again once the transaction is undone; so are the keys, which went with it.
        self.connection.execute("ROLLBACK")
        self._keys_table(changes, keys, there, key)
        try:
            number = self._first(f"FROM replay_keys k ANTI JOIN {self._name} t ON {self._match(key)}")
        except duckdb.CatalogException:  # the table was made in the same transaction
            number = int(there[0])
        if number is None:
            row = int(keys[there[0], rk.K_ROW])
            raise RowRefused(row, f"the table has several rows with this key, {self._shown(changes, row, key)}")
        row = int(keys[number, rk.K_ROW])
        raise RowRefused(row, f"there is no such row, {self._shown(changes, row, key)}")

    def _not_there(self, changes: Changes, keys: Any, fresh: Any, key: list[int]) -> None:
        if not self.connection.execute(f"SELECT 1 FROM {self._name} LIMIT 1").fetchall():
            return
        self._keys_table(changes, keys, fresh, key)
        number = self._first(f"FROM replay_keys k SEMI JOIN {self._name} t ON {self._match(key)}")
        if number is not None:
            row = int(keys[number, rk.K_ROW])
            raise RowRefused(row, f"the row is there already, {self._shown(changes, row, key, AFTER)}", True)

    def _shown(self, changes: Changes, row: int, key: Sequence[int], side: int | None = None) -> str:
        """Return the key of a row as text: of its before image, or of the after image of an insert."""
        if side is None:
            side = AFTER if changes.op_of(row) == "insert" else BEFORE
        starts, sizes = changes.cut.starts[side, key, row], changes.cut.sizes[side, key, row]
        cells = [changes.cut.buffer[at : at + size].tobytes() for at, size in zip(starts, sizes, strict=True)]
        return key_text([self.facts[column] for column in key], cells)

    def _first(self, source: str) -> int | None:
        found = self.connection.execute(f'SELECT min(k."replay n ") {source}').fetchall()[0][0]
        return None if found is None else int(found)

    def _insert(self, changes: Changes, rows: Any, prev: Any, partial: bool) -> None:
        arrays: dict[str, Any] = {}
        chosen, old = [], np.full(len(rows), -1, np.int64)
        for column in self.kept:
            name = self.table.columns[column].name
            sources = rows
            if partial:
                sources = np.empty(len(rows), np.int64)
                rk.trace(changes.cut.sizes, prev, rows, column, sources)
                from_old = (sources < 0) & (sources != rk.NOTHING)
                old[from_old] = -1 - sources[from_old]
            arrays[name] = self._values(changes, column, sources)
            if partial and from_old.any():
                has = f"replay has {column} "
                arrays[has] = pa.array(~from_old)
                chosen.append(f"CASE WHEN n.{quoted(has)} THEN {self._cast(column)} ELSE o.{quoted(name)} END")
            else:
                chosen.append(self._cast(column))
        source = "replay_arrow n"
        if (old >= 0).any():
            arrays["replay old "] = pa.array(old)
            source += ' LEFT JOIN replay_old o ON n."replay old " = o."replay n "'
        self.connection.register("replay_arrow", pa.table(arrays))
        names = listed(self._names(self.kept))
        self.connection.execute(f"INSERT INTO {self._name} ({names}) SELECT {', '.join(chosen)} FROM {source}")

    def _cast(self, column: int) -> str:
        definition = self.table.columns[column]
        return f"CAST(n.{quoted(definition.name)} AS {duckdb_type(definition.type, self.temporal_text)})"

    def _values(self, changes: Changes, column: int, sources: Any) -> Any:
        """Return a column's values at the rows `sources`; NOTHING gives the default, other negative numbers NULL."""
        at = np.maximum(sources, 0)
        starts, sizes = changes.cut.starts[AFTER, column][at], changes.cut.sizes[AFTER, column][at]
        sizes[sources < 0] = NONE
        array = for_duckdb(decode_column(self.facts[column], changes.cut.buffer, starts, sizes))
        left_out = sources == rk.NOTHING
        if not left_out.any():
            return array
        default = array_of(self.table.columns[column], [constant_pad(self.table.columns[column])], self.temporal_text)
        both = pa.concat_arrays([array, default.cast(array.type)])
        return both.take(pa.array(np.where(left_out, len(array), np.arange(len(array)))))

    def _counted(self, changes: Changes, passing: Any) -> None:
        cut = changes.cut
        there = [np.flatnonzero((cut.sizes[one, 0] != NONE) & passing) for one in (BEFORE, AFTER)]
        row = np.concatenate(there)
        side = np.repeat(np.array((BEFORE, AFTER)), [len(rows) for rows in there])
        arrays: dict[str, Any] = {"replay sign ": pa.array(np.where(side == AFTER, 1, -1))}
        for column in self.kept:
            starts, sizes = cut.starts[side, column, row], cut.sizes[side, column, row]
            if (sizes == ABSENT).any():
                number = int(row[np.flatnonzero(sizes == ABSENT)[0]])
                raise RowRefused(number, "the table has no key, and the log does not have its whole rows")
            name = self.table.columns[column].name
            arrays[name] = for_duckdb(decode_column(self.facts[column], cut.buffer, starts, sizes))
        self.connection.register("replay_arrow", pa.table(arrays))
        names = listed(self._names(self.kept))
        self.connection.execute(
            f'CREATE OR REPLACE TEMP TABLE replay_net AS SELECT {names}, sum("replay sign ") AS "replay n " FROM '
            f'(SELECT {self._casts(self.kept)}, "replay sign " FROM replay_arrow) GROUP BY {names}, {self._apart()} '
            'HAVING sum("replay sign ") <> 0'
        )
        pairs = zip(self._told_apart("t."), self._told_apart("k."), strict=True)
        match = " AND ".join(f"{one} IS NOT DISTINCT FROM {other}" for one, other in pairs)
        self._complete(match)
        ((wanted,),) = self.connection.execute(
            'SELECT coalesce(-sum("replay n "), 0) FROM replay_net WHERE "replay n " < 0'
        ).fetchall()
        if wanted:
            ((gone,),) = self.connection.execute(
                f'DELETE FROM {self._name} WHERE rowid IN (SELECT r FROM (SELECT t.rowid AS r, k."replay n " AS n, '
                f"row_number() OVER (PARTITION BY {self._apart('k.')}) AS i FROM {self._name} t "
                f'JOIN replay_net k ON k."replay n " < 0 AND {match}) WHERE i <= -n)'
            ).fetchall()
            if gone != wanted:
                raise RowRefused(int(row[0]), f"of the rows that are deleted or changed, {wanted - gone} are not there")
        self.connection.execute(
            f"INSERT INTO {self._name} ({names}) SELECT {listed(self._names(self.kept), 'k.')} "
            'FROM replay_net k, range(k."replay n "::BIGINT) WHERE k."replay n " > 0'
        )
        self.connection.execute("DROP TABLE replay_net")

    def _told_apart(self, prefix: str = "") -> list[str]:
        return [told_apart(c, prefix + quoted(c.name)) for c in (self.table.columns[number] for number in self.kept)]

    def _apart(self, prefix: str = "") -> str:
        return ", ".join(self._told_apart(prefix))

    def _complete(self, match: str) -> None:
        """Insert rows that `replay_net` removes and that must have existed before the log."""


class OverwritingWriter(TableWriter):
    """Writes rows of which nobody knows whether they are there, or as what: each key becomes what its last row says.

    A table without a key has only rows of the log.
    """

    def _delete(self, changes: Changes, keys: Any, there: Any, key: list[int], partial: bool) -> None:
        self._keys_table(changes, keys, there, key)
        self.connection.execute(f"DELETE FROM {self._name} t USING replay_keys k WHERE {self._match(key)}")

    def _not_there(self, changes: Changes, keys: Any, fresh: Any, key: list[int]) -> None:
        self._delete(changes, keys, fresh, key, False)


def keys_of(table: Table) -> Iterator[list[int]]:
    """Yield the column indexes of each key that tells the rows of a table apart, the primary key first."""
    for index in table.row_keys:
        yield list(table.places(index) or ())


@dataclass(frozen=True)
class DuckdbDocuments:
    """The current documents in a target's tables."""

    target: DuckdbTarget

    def key_of(self, table: TableMap) -> Sequence[int] | None:
        """Return the indexes of the columns of a table's key; None if it has none, or the table is not known."""
        known = self._known(table)
        return None if known is None else next(keys_of(known), None)

    def keeps(self, table: TableMap, column: int) -> bool:
        """Return whether the file has a column."""
        known = self._known(table)
        return known is None or known.columns[column].name.lower() in self._here(known)

    def documents(self, table: TableMap, key: Sequence[int], wanted: Sequence[Key]) -> dict[Key, dict[int, Cell]]:
        """Return the documents of rows by their keys' cells; missing rows and columns are left out."""
        known = self._known(table)
        assert known is not None
        here = self._here(known)
        json = [i for i, c in enumerate(known.columns) if c.type.family is Family.JSON and c.name.lower() in here]
        if not wanted or not json or not all(known.columns[i].name.lower() in here for i in key):
            return {}
        columns, text = [known.columns[i] for i in key], self.target.temporal_text
        arrays: dict[str, Any] = {"replay n ": pa.array(range(len(wanted)))}
        for number, column in enumerate(columns):
            arrays[column.name] = array_of(column, [cells[number] for cells in wanted], text)
        connection = self.target.connection
        connection.register("replay_wanted", pa.table(arrays))
        match = " AND ".join(_same(column, text) for column in columns)
        found = connection.sql(
            f'SELECT k."replay n ", {listed([known.columns[i].name for i in json], "t.")} '
            f"FROM {qualified(known.schema, known.name)} t JOIN replay_wanted k ON {match}"
        ).to_arrow_table()
        cells = [cells_of(known.columns[i], found.column(1 + n)) for n, i in enumerate(json)]
        numbers = found.column("replay n ").to_pylist()
        return {wanted[n]: dict(zip(json, row, strict=True)) for n, *row in zip(numbers, *cells, strict=True)}

    def _known(self, table: TableMap) -> Table | None:
        known = self.target.catalog.get(table.schema, table.table)
        return known if known is not None and check_witness(known, table) is None else None

    def _here(self, table: Table) -> set[str]:
        return {name.lower() for name in self.target.columns_of(table.schema, table.name)}


def _same(column: Column, temporal_text: bool) -> str:
    name = quoted(column.name)
    return f"t.{name} = CAST(k.{name} AS {duckdb_type(column.type, temporal_text)})"
