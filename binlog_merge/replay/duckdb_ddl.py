"""Logical DDL on DuckDB tables: what a statement makes of the schema, made of the tables and the rows in them.

A table is dropped, emptied, renamed or made as such. An ALTER that DuckDB does in place (a column dropped, renamed, or
added with NULL at the end) is done in place; any other makes the table anew, its rows carried over with the values that
the server has. DuckDB's DDL is transactional, so a statement and the position behind it are one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from binlog_merge.errors import ReplayStopped, UnsupportedInput
from binlog_merge.replay.duckdb_types import duckdb_type, place, quoted
from binlog_merge.replay.duckdb_values import carries, compute_values, constant_of, convert_values, needed_columns
from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.cursor import TableName
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.specs import ColumnSpec
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Column, Table

BY_HAND: Final = "do the same to the DuckDB table by hand, and run the replay again with --skip"
_LOSES_ROWS: Final = frozenset({"DROP", "TRUNCATE", "EXCHANGE"})
_NEW: Final = "binlog_merge new"
"""What a table is called while it is made anew."""


@dataclass(frozen=True)
class DdlTarget:
    """Carries out statements over a DuckDB connection, within its transaction.

    `chosen` says which columns of a table are kept, by name; None keeps all. `present` are those that a table has in
    the file: a filter may have left out the statement that made one.
    """

    connection: Any
    present: Callable[[str, str], tuple[str, ...]]
    temporal_text: bool = False
    chosen: Callable[[str, str], Any] = lambda schema, table: None

    def carry_out(self, catalog: Catalog, sql: str, schema: str, session: DdlSession, commit_us: int) -> Catalog:
        """Carry out one statement on tables that are as the catalog says; returns what it is then.

        Raises ReplayStopped for what is not understood, and for what cannot be done to rows that are there.
        """
        statement, after = understood(catalog, sql, schema, session)
        match statement:
            case st.TruncateTable(table=(own, name)):
                self._run(f"DELETE FROM {place(own or schema, name)}")
            case st.RenameTables(pairs=pairs):
                for old, new in pairs:
                    self._move(_full(old, schema), _full(new, schema))
            case st.CreateSchema(name=name):
                self._run(f"CREATE SCHEMA IF NOT EXISTS {place(name)}")
            case st.DropSchema(name=name):
                self._run(f"DROP SCHEMA IF EXISTS {place(name)} CASCADE")
            case st.AlterTable(table=table, actions=actions):
                self._alter(catalog, after, _full(table, schema), actions, schema, commit_us)
            case _:
                for key in sorted({*catalog.tables, *after.tables}):
                    self._changed(catalog.tables.get(key), after.tables.get(key))
        return after

    def create(self, table: Table) -> None:
        """Make a table that is not there."""
        self._run(f"CREATE SCHEMA IF NOT EXISTS {place(table.schema)}")
        self._run(f"CREATE TABLE {place(table.schema, table.name)} ({self._definitions(self.columns(table))})")

    def columns(self, table: Table) -> tuple[Column, ...]:
        """Return the columns of a table that are kept."""
        wanted = self.chosen(table.schema, table.name)
        return tuple(column for column in table.columns if wanted is None or wanted.matches(column.name))

    def alter(self, before: Table, after: Table, renamed: Mapping[str, str], commit_us: int) -> None:
        """Give a table other columns; `renamed` are new names by old ones, in lower case."""
        there = {name.lower() for name in self.present(before.schema, before.name)}
        old = {column.name.lower(): column for column in self.columns(before) if column.name.lower() in there}
        left_out = {renamed.get(c.name.lower(), c.name).lower() for c in before.columns} - {
            renamed.get(name, name).lower() for name in old
        }
        origin = {new.lower(): name for name, new in renamed.items() if name in old}
        plain = {name: name for name in old if name not in renamed}
        source = {**plain, **origin}
        columns = [column for column in self.columns(after) if column.name.lower() not in left_out]
        pairs = [(column, old.get(source.get(column.name.lower(), ""))) for column in columns]
        if self._in_place(before, after, pairs, list(old.values())):
            return
        self._make_anew(before, after, pairs, commit_us)

    def _alter(
        self, catalog: Catalog, after: Catalog, name: tuple[str, str], actions: Any, schema: str, commit_us: int
    ) -> None:
        target = name
        renamed: dict[str, str] = {}
        for action in actions:
            match action:
                case act.RenameTo(table=to):
                    target = _full(to, schema)
                case act.RenameColumn(old=old, new=new) | act.ChangeColumn(old=old, column=ColumnSpec(name=new)):
                    if old.lower() != new.lower():
                        renamed[old.lower()] = new
                case act.PartitionWork(kind=kind) if kind.upper() in _LOSES_ROWS:
                    raise ReplayStopped(
                        f"{kind.upper()} PARTITION takes rows away that the log does not name",
                        remedy=BY_HAND,
                    )
        before, table = catalog.tables.get(name), after.tables.get(target)
        if before is None or table is None:
            raise ReplayStopped(f"{'.'.join(name)} is not known here")
        try:
            self.alter(before, table.renamed(*name), renamed, commit_us)
        except UnsupportedInput as error:
            raise ReplayStopped(f"the rows that are there cannot be altered: {error.message}", remedy=BY_HAND) from None
        if target != name:
            self._move(name, target)

    def _changed(self, before: Table | None, after: Table | None) -> None:
        if before is not None and after is None:
            self._run(f"DROP TABLE IF EXISTS {place(before.schema, before.name)}")
        elif before is None and after is not None:
            self.create(after)

    def _move(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        if old[0] == new[0]:
            self._run(f"ALTER TABLE {place(*old)} RENAME TO {quoted(new[1])}")
            return
        # DuckDB does not move a table to another schema.
        self._run(f"CREATE TABLE {place(*new)} AS SELECT * FROM {place(*old)}")
        self._run(f"DROP TABLE {place(*old)}")

    def _definitions(self, columns: Sequence[Column]) -> str:
        return ", ".join(f"{quoted(c.name)} {duckdb_type(c.type, self.temporal_text)}" for c in columns)

    def _in_place(
        self, before: Table, after: Table, pairs: list[tuple[Column, Column | None]], old: list[Column]
    ) -> bool:
        """Do what DuckDB can do to a table as it stands; False, and nothing done, where that is not all there is."""
        name, kept = place(before.schema, before.name), [was for _, was in pairs if was is not None]
        order = [column for column in old if column in kept]
        added = [column for column, was in pairs if was is None]
        empty_added = all(c.nullable and c.generated is None and (c.default is None or c.default.kind == "null")
                          for c in added)  # fmt: skip
        same = all(was is None or self._same(was, column) for column, was in pairs)
        at_end = [was is None for _, was in pairs] == [False] * len(kept) + [True] * len(added)
        if not (empty_added and same and at_end and order == kept and kept):
            return False
        for column in old:
            if column not in kept:
                self._run(f"ALTER TABLE {name} DROP COLUMN {quoted(column.name)}")
        steps = [(was.name, column.name) for column, was in pairs if was is not None and was.name != column.name]
        # By way of names that nobody has: two columns may have changed theirs with each other.
        for i, (was_name, _) in enumerate(steps):
            self._run(f"ALTER TABLE {name} RENAME COLUMN {quoted(was_name)} TO {quoted(f'{_NEW} {i}')}")
        for i, (_, new_name) in enumerate(steps):
            self._run(f"ALTER TABLE {name} RENAME COLUMN {quoted(f'{_NEW} {i}')} TO {quoted(new_name)}")
        for column in added:
            kind = duckdb_type(column.type, self.temporal_text)
            self._run(f"ALTER TABLE {name} ADD COLUMN {quoted(column.name)} {kind}")
        return True

    def _same(self, was: Column, column: Column) -> bool:
        types = duckdb_type(was.type, self.temporal_text), duckdb_type(column.type, self.temporal_text)
        return types[0] == types[1] and carries(was, column) and self._text_stays(was, column)

    def _text_stays(self, was: Column, column: Column) -> bool:
        return not self.temporal_text or was.type.fsp == column.type.fsp

    def _make_anew(
        self, before: Table, after: Table, pairs: list[tuple[Column, Column | None]], commit_us: int
    ) -> None:
        name = place(before.schema, before.name)
        new = place(before.schema, _NEW)
        definitions = self._definitions([column for column, _ in pairs])
        if not self.connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchall():
            self._run(f"DROP TABLE {name}")
            self._run(f"CREATE TABLE {name} ({definitions})")
            return
        self._run(f"CREATE TABLE {new} ({definitions})")
        chosen, joins = [], []
        for i, (column, was) in enumerate(pairs):
            if was is not None and carries(was, column) and self._text_stays(was, column):
                chosen.append(f"t.{quoted(was.name)}")
                continue
            values = self._converted(name, column, was) if was is not None else None
            if was is not None and values is not None:
                joins.append(f"LEFT JOIN new{i} ON t.{quoted(was.name)} IS NOT DISTINCT FROM new{i}.k")
            elif (constant := constant_of(column, after.columns, commit_us, self.temporal_text)) is not None:
                values = {"v": constant}
                joins.append(f"CROSS JOIN new{i}")
            else:
                values = self._computed(name, before, after, column, commit_us)
                joins.append(f"LEFT JOIN new{i} ON t.rowid = new{i}.k")
            self.connection.register(f"new{i}", pa.table(values))
            kind = duckdb_type(column.type, self.temporal_text)
            chosen.append(f"CAST(new{i}.v AS {kind})")
        self._run(f"INSERT INTO {new} SELECT {', '.join(chosen)} FROM {name} t {' '.join(joins)}")
        self._run(f"DROP TABLE {name}")
        self._run(f"ALTER TABLE {new} RENAME TO {quoted(before.name)}")

    def _converted(self, name: str, column: Column, was: Column) -> dict[str, Any]:
        values = self._ask(f"SELECT DISTINCT {quoted(was.name)} AS v FROM {name}")
        old = values.column("v").combine_chunks()
        return {"k": old, "v": convert_values(was, column, old, self.temporal_text)}

    def _computed(self, name: str, before: Table, after: Table, column: Column, commit_us: int) -> dict[str, Any]:
        needed = [c.name for c in needed_columns(column, after.columns)]
        known = {c.name.lower() for c in self.columns(before)}
        if missing := [c for c in needed if c.lower() not in known]:
            raise ReplayStopped(
                f"column {column.name} is computed from {missing[0]}, which the same statement adds or renames",
                remedy=BY_HAND,
            )
        rows = self._ask(f"SELECT rowid AS k{''.join(', ' + quoted(n) for n in needed)} FROM {name}")
        values = compute_values(column, after.columns, rows, commit_us, self.temporal_text)
        return {"k": rows.column("k"), "v": values}

    def _ask(self, sql: str) -> Any:
        return self.connection.sql(sql).to_arrow_table()

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)


def understood(catalog: Catalog, sql: str, schema: str, session: DdlSession) -> tuple[Any, Catalog]:
    """Return a statement and what it makes of a catalog. Raises ReplayStopped where that is not known."""
    try:
        return parse_statement(sql, session), apply_ddl(catalog, sql, schema, session).catalog
    except SnapshotStoreError as error:
        raise ReplayStopped(
            f"what a statement does to the tables is not known: {error}",
            remedy=BY_HAND,
        ) from None


def _full(name: TableName, schema: str) -> tuple[str, str]:
    own, table = name
    return own or schema, table
