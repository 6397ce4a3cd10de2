"""Tables that existed before the log begins: which of their rows are known from the log, and in which columns.

A row that the log changes or deletes existed before, with the values of its before image. So such rows are inserted
when the log names them for the first time, and then treated as any others. Next to the table there are two more:

    touched N    the keys that the log names: those that are not in the table were deleted, and must not be on a server
    unsaid N     the keys of rows with columns that no image has held (binlog_row_image MINIMAL, NOBLOB), and these
                 columns; NULL: all but the key

Rows that the log never names may exist or not. A table without a key is a bag: it is known which rows it must have, but
not which it must not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from binlog_merge.binlog.columnar import BEFORE, decode_column
from binlog_merge.binlog.kernels import row_keys as rk
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from binlog_merge.errors import ReplayStopped
from binlog_merge.log.changes import Changes
from binlog_merge.reshape.pads import constant_pad
from binlog_merge.tables.rows import RowRefused, TableWriter, keys_of
from binlog_merge.tables.target import META_SCHEMA
from binlog_merge.tables.types import for_duckdb, in_duckdb, listed, qualified
from binlog_merge.tables.values import array_of
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.effects import Verb, effects_of
from snapshot_store.model import Catalog, Column, Table
from snapshot_store.mysql.column_type import Family

Name = tuple[str, str]


class Unjudgeable(ReplayStopped):
    """A table from before the log, by its name at the beginning, cannot be followed any further."""

    def __init__(self, message: str, name: Name) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class Touched:
    """The two extra tables of a table with this number: see the module."""

    connection: Any
    number: int

    def make(self, key: int) -> None:
        """Create both if they do not exist; `key` is the number of columns of the table's key."""
        names = ", ".join(f"k{i} VARCHAR" for i in range(key))
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {self.keys} ({names})")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {self.unsaid} ({names}, columns VARCHAR[])")

    @property
    def keys(self) -> str:
        """Return the quoted name of the table of keys."""
        return qualified(META_SCHEMA, f"touched {self.number}")

    @property
    def unsaid(self) -> str:
        """Return the quoted name of the table of unknown columns."""
        return qualified(META_SCHEMA, f"unsaid {self.number}")

    def there(self) -> bool:
        """Return whether the tables exist."""
        names = self.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return (f"touched {self.number}",) in names

    def forget(self) -> None:
        """Drop the keys, as the table has another key now."""
        self.connection.execute(f"DROP TABLE IF EXISTS {self.keys}; DROP TABLE IF EXISTS {self.unsaid}")

    def doubt(self) -> None:
        """Mark all columns but the key as unknown, in rows with an unknown column."""
        self.connection.execute(f"UPDATE {self.unsaid} SET columns = NULL")


@dataclass
class FoundThere:
    """The tables that exist before the log: current name to the name at the beginning.

    `given` are those whose rows are known. Rows of the tables in `left_out` are not applied, for the reason given
    there; `notes` are what is not compared in others. Both are by the names at the beginning.
    """

    left_out: Mapping[Name, str] = field(default_factory=dict)
    given: set[Name] = field(default_factory=set)
    names: dict[Name, Name] = field(default_factory=dict)
    notes: dict[Name, str] = field(default_factory=dict)
    _numbers: dict[Name, int] = field(default_factory=dict)

    def begin(self, catalog: Catalog) -> None:
        """Record the tables at the beginning of the log."""
        for name in catalog.tables:
            if name not in self.given:
                self.names[name] = name

    def leaves_out(self, name: Name) -> bool:
        """Return whether a table's rows are not applied."""
        return self.names.get(name) in self.left_out

    def touched(self, name: Name, connection: Any) -> Touched:
        """Return the extra tables of a table."""
        origin = self.names[name]
        return Touched(connection, self._numbers.setdefault(origin, len(self._numbers)))

    def follow(self, connection: Any, before: Catalog, after: Catalog, statement: Any, schema: str) -> None:
        """Follow the effects of a statement on names, keys and columns. Raises Unjudgeable."""
        effects = effects_of(statement, schema)
        moved = {old: new for old, new in effects.paths if old in self.names}
        self.names = {moved.get(now, now): origin for now, origin in self.names.items()}
        emptied = effects.having(Verb.EMPTY) if isinstance(statement, st.TruncateTable) else ()
        for name in [*self.names]:
            if name not in after.tables or name in emptied:
                del self.names[name]
        for effect in effects.all:
            if effect.verb is Verb.EXCHANGE and effect.other is not None:
                self._exchanged(effect.table, effect.other)
        for new in [*self.names]:
            old = next((was for was, now in moved.items() if now == new), new)
            if old in before.tables and before.tables[old] != after.tables[new]:
                self._altered(new, before.tables[old], after.tables[new], connection)

    def _exchanged(self, *names: Name) -> None:
        for name in names:
            origin = self.names.setdefault(name, name)
            if any(other in self.names for other in names) and origin not in self.left_out:
                raise Unjudgeable(f"a partition's rows and those of {'.'.join(names[-1])} change places", origin)

    def _altered(self, name: Name, before: Table, after: Table, connection: Any) -> None:
        origin = self.names[name]
        if origin in self.left_out:
            return
        counted = {c.name.lower() for c in before.columns if c.auto_increment}
        numbered = next((c for c in after.columns if c.auto_increment and c.name.lower() not in counted), None)
        if numbered is not None and before.index_of(numbered.name) is None:
            raise Unjudgeable(
                f"all rows were numbered in {numbered.name}, those too that the log does not name", origin
            )
        touched = self.touched(name, connection)
        if not touched.there():
            return
        touched.doubt()
        if _key_types(before) != _key_types(after):
            touched.forget()
            self.notes[origin] = "what the log deleted before the table got another key is not looked for"


def _key_types(table: Table) -> list[Any]:
    return [table.columns[c].type for c in next(keys_of(table), [])]


@dataclass(frozen=True)
class TouchingWriter(TableWriter):
    """Writes changes of a table from before the log: rows that existed by their before images are inserted first."""

    touched: Touched = field(kw_only=True)
    _unsaid: dict[int, set[str] | None] = field(default_factory=dict, kw_only=True)

    def _keyed(self, changes: Changes, passing: Any, key: list[int]) -> None:
        if key != next(keys_of(self.table)):
            raise RowRefused(0, "the images do not show the table's key")
        self.touched.make(len(key))
        self._unsaid.clear()
        super()._keyed(changes, passing, key)

    def _delete(self, changes: Changes, keys: Any, there: Any, key: list[int], partial: bool) -> None:
        self._keys_table(changes, keys, there, key)
        same = " AND ".join(f"s.k{i} = {text}" for i, text in enumerate(self._texts(key)))
        missing = self.connection.execute(
            f'SELECT k."replay n " FROM replay_keys k ANTI JOIN {self._name} t ON {self._match(key)} '
            f"ANTI JOIN {self.touched.keys} s ON {same} ORDER BY 1"
        ).fetchall()
        if missing:
            self._seed(changes, keys, np.array([n for (n,) in missing], np.int64), key)
            self._keys_table(changes, keys, there, key)
        for number, columns in self.connection.execute(
            f'SELECT k."replay n ", s.columns FROM replay_keys k JOIN {self.touched.unsaid} s ON {same}'
        ).fetchall():
            self._unsaid[number] = None if columns is None else set(columns)
        self.connection.execute(f"DELETE FROM {self.touched.unsaid} s USING replay_keys k WHERE {same}")
        self._touch(key)
        super()._delete(changes, keys, there, key, partial)

    def _not_there(self, changes: Changes, keys: Any, fresh: Any, key: list[int]) -> None:
        super()._not_there(changes, keys, fresh, key)
        self._keys_table(changes, keys, fresh, key)
        self._touch(key)

    def _touch(self, key: Sequence[int]) -> None:
        self.connection.execute(
            f"INSERT INTO {self.touched.keys} SELECT {', '.join(self._texts(key))} FROM replay_keys k"
        )

    def _texts(self, key: Sequence[int], prefix: str = "k.") -> list[str]:
        return [f"CAST({in_duckdb(self.table.columns[c], prefix)} AS VARCHAR)" for c in key]

    def _seed(self, changes: Changes, keys: Any, numbers: Any, key: list[int]) -> None:
        """Insert rows with the values of their first before images; columns that these lack get a placeholder."""
        cut, rows = changes.cut, keys[numbers, rk.K_ROW]
        arrays: dict[str, Any] = {}
        for column in self.kept:
            definition = self.table.columns[column]
            starts, sizes = cut.starts[BEFORE, column][rows], cut.sizes[BEFORE, column][rows].copy()
            absent = sizes == ABSENT
            sizes[absent] = NONE
            array = for_duckdb(decode_column(self.facts[column], cut.buffer, starts, sizes))
            if absent.any():
                nothing = array_of(definition, [_placeholder(definition)], self.temporal_text).cast(array.type)
                both = pa.concat_arrays([array, nothing])
                array = both.take(pa.array(np.where(absent, len(array), np.arange(len(array)))))
                for number in numbers[absent].tolist():
                    self._unsaid.setdefault(number, set()).add(definition.name.lower())  # type: ignore[union-attr]
            arrays[definition.name] = array
        self.connection.register("replay_arrow", pa.table(arrays))
        chosen = ", ".join(self._cast(column) for column in self.kept)
        self.connection.execute(
            f"INSERT INTO {self._name} ({listed(self._names(self.kept))}) SELECT {chosen} FROM replay_arrow n"
        )

    def _insert(self, changes: Changes, rows: Any, prev: Any, partial: bool) -> None:
        super()._insert(changes, rows, prev, partial)
        if not self._unsaid or not partial:
            return
        left: dict[int, set[str] | None] = {}
        for column in self.kept:
            name, sources = self.table.columns[column].name.lower(), np.empty(len(rows), np.int64)
            rk.trace(changes.cut.sizes, prev, rows, column, sources)
            for at in np.flatnonzero((sources < 0) & (sources != rk.NOTHING)).tolist():
                old = self._unsaid.get(-1 - int(sources[at]), set())
                if old is None:
                    left[at] = None
                elif name in old and left.get(at, set()) is not None:
                    left.setdefault(at, set()).add(name)  # type: ignore[union-attr]
        key = self._key(changes)
        if not left or key is None:
            return
        chosen = rows[np.array(sorted(left), np.int64)]
        arrays: dict[str, Any] = {
            "replay columns ": pa.array([_listed(left[at]) for at in sorted(left)], pa.list_(pa.string()))
        }
        for column in key:
            arrays[self.table.columns[column].name] = self._values(changes, column, chosen)
        self.connection.register("replay_arrow", pa.table(arrays))
        self.connection.execute(
            f'INSERT INTO {self.touched.unsaid} SELECT {", ".join(self._texts(key))}, "replay columns " FROM '
            f'(SELECT {self._casts(key)}, "replay columns " FROM replay_arrow) k'
        )

    def _complete(self, match: str) -> None:
        names = self._names(self.kept)
        wanted, short = listed(names, "k."), 'range(greatest(m."replay short ", 0)::BIGINT)'
        self.connection.execute(
            f"INSERT INTO {self._name} ({listed(names)}) SELECT {listed(names, 'm.')} FROM "
            f'(SELECT {wanted}, -k."replay n " - count(t.rowid) AS "replay short " FROM replay_net k '
            f'LEFT JOIN {self._name} t ON {match} WHERE k."replay n " < 0 '
            f'GROUP BY {wanted}, {self._apart("k.")}, k."replay n ") m, {short}'
        )


def _placeholder(column: Column) -> bytes | None:
    return None if column.type.family is Family.JSON else constant_pad(column)


def _listed(columns: set[str] | None) -> list[str] | None:
    return None if columns is None else sorted(columns)
