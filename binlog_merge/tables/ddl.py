"""Executes logical DDL on DuckDB tables and the rows in them.

Tables are dropped, truncated, renamed and created directly. An ALTER that DuckDB can do in place (drop or rename a
column, add one with NULL at the end) is done in place; any other rebuilds the table, with the values for its rows that
a server would have. DuckDB's DDL is transactional, so a statement and the position after it are committed atomically.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from binlog_merge.errors import ReplayStopped, UnsupportedInput
from binlog_merge.log.statement import StatementSession
from binlog_merge.tables.alter import Alteration
from binlog_merge.tables.partitions import KeyPlaces, PartitionRows
from binlog_merge.tables.types import BY_HAND, definitions, qualified, quoted
from snapshot_store.ddl import actions as act
from snapshot_store.ddl import apply_parsed
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.specs import ColumnSpec, Options
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Column, Table
from snapshot_store.mysql.sql.cursor import TableName

Name = tuple[str, str]
_OF_DUCKDB: Final = frozenset({"pg_catalog", "information_schema"})


@dataclass(frozen=True)
class DdlTarget:
    """Executes statements on a DuckDB connection, in its transaction.

    `chosen` returns which columns of a table are kept, by name; None keeps all. `present` returns those that a table
    has in the file: a filter may have ignored the statement that created one.
    """

    connection: Any
    present: Callable[[str, str], tuple[str, ...]]
    temporal_text: bool = False
    chosen: Callable[[str, str], Any] = lambda schema, table: None

    def carry_out(self, catalog: Catalog, ddl: ParsedDdl, schema: str, session: StatementSession) -> Catalog:
        """Execute a statement on tables that are as in `catalog`; return the catalog after it.

        Raises ReplayStopped if the statement is not understood, or cannot be executed on the existing rows.
        """
        statement, after = understood(catalog, ddl, schema)
        match statement:
            case st.TruncateTable(table=(own, name)):
                self._run(f"DELETE FROM {qualified(own or schema, name)}")
            case st.RenameTables(pairs=pairs):
                for old, new in moved_tables(catalog, [(_full(old, schema), _full(new, schema)) for old, new in pairs]):
                    self._move(old, new)
            case st.CreateSchema(name=name):
                self._run(f"CREATE SCHEMA IF NOT EXISTS {qualified(name)}")
            case st.DropSchema(name=name):
                self._drop_schema(catalog, name)
            case st.AlterTable(actions=(act.TableFile(),)):
                raise _moves_files()
            case st.AlterTable(table=table, actions=actions):
                self._alter(catalog, after, _full(table, schema), actions, schema, session)
            case _:
                for key in sorted({*catalog.tables, *after.tables}):
                    self._changed(catalog.tables.get(key), after.tables.get(key))
        return after

    def _drop_schema(self, catalog: Catalog, name: str) -> None:
        if name.lower() != "main":
            self._run(f"DROP SCHEMA IF EXISTS {qualified(name)} CASCADE")
            return
        # DuckDB does not part with its own schema of this name.
        for schema, table in sorted(catalog.tables):
            if schema == name:
                self._run(f"DROP TABLE IF EXISTS {qualified(schema, table)}")

    def create(self, table: Table) -> None:
        """Create a table if it does not exist. Raises ReplayStopped if DuckDB has no place for it."""
        _check_place(table.schema)
        self._run(f"CREATE SCHEMA IF NOT EXISTS {qualified(table.schema)}")
        columns = definitions(self.columns(table), self.temporal_text)
        self._run(f"CREATE TABLE {qualified(table.schema, table.name)} ({columns})")

    def columns(self, table: Table) -> tuple[Column, ...]:
        """Return the columns of a table that are kept."""
        wanted = self.chosen(table.schema, table.name)
        return tuple(column for column in table.columns if wanted is None or wanted.matches(column.name))

    def alter(
        self,
        before: Table,
        after: Table,
        renamed: Mapping[str, str],
        session: StatementSession,
        added: frozenset[str] = frozenset(),
        start: int = 1,
        alone: bool = False,
    ) -> None:
        """Alter the columns of a table; `renamed` are new names by old ones, in lower case.

        `added` are columns that nothing is carried over to, whatever was called so; `start` is where one of them counts
        from that has AUTO_INCREMENT. `alone`: the statement does nothing but define one column anew.
        """
        there = {name.lower() for name in self.present(before.schema, before.name)}
        old = {column.name.lower(): column for column in self.columns(before) if column.name.lower() in there}
        left_out = {renamed.get(c.name.lower(), c.name).lower() for c in before.columns} - {
            renamed.get(name, name).lower() for name in old
        }
        origin = {new.lower(): name for name, new in renamed.items() if name in old}
        plain = {name: name for name in old if name not in renamed and name not in added}
        source = {**plain, **origin}
        columns = [column for column in self.columns(after) if column.name.lower() not in left_out]
        pairs = tuple((column, old.get(source.get(column.name.lower(), ""))) for column in columns)
        work = Alteration(
            self.connection, before, after, pairs, tuple(old.values()), session, start, self.temporal_text, alone
        )
        work.carry_out()

    def _alter(
        self,
        catalog: Catalog,
        after: Catalog,
        name: tuple[str, str],
        actions: Any,
        schema: str,
        session: StatementSession,
    ) -> None:
        target = name
        renamed: dict[str, str] = {}
        added: set[str] = set()
        start = 1
        for action in actions:
            match action:
                case act.RenameTo(table=to):
                    target = _full(to, schema)
                case act.RenameColumn(old=old, new=new) | act.ChangeColumn(old=old, column=ColumnSpec(name=new)):
                    if old.lower() != new.lower():
                        renamed[old.lower()] = new
                case act.AddColumn(column=ColumnSpec(name=new)):
                    added.add(new.lower())
                case act.SetOptions(options=Options(auto_increment=int(number))):
                    start = number
        before, table = catalog.tables.get(name), after.tables.get(target)
        if before is None or table is None:
            raise ReplayStopped(f"{'.'.join(name)} is not known here")
        for action in actions:
            if isinstance(action, act.PartitionWork):
                other = None if action.table is None else catalog.tables.get(_full(action.table, schema))
                self._partition_work(before, action, other)
        alone = len(actions) == 1 and isinstance(actions[0], act.ChangeColumn)
        try:
            self.alter(before, table.renamed(*name), renamed, session, frozenset(added), start, alone)
        except UnsupportedInput as error:
            raise ReplayStopped(f"the rows that are there cannot be altered: {error.message}", remedy=BY_HAND) from None
        if target != name:
            self._move(name, target)

    def _partition_work(self, table: Table, work: act.PartitionWork, other: Table | None) -> None:
        """Change rows as an action on partitions does; most actions change none."""
        kind = work.kind.upper()
        if kind in ("DISCARD", "IMPORT"):
            raise _moves_files()
        if kind not in ("DROP", "TRUNCATE", "EXCHANGE"):
            return
        here = frozenset(column.lower() for column in self.present(table.schema, table.name))
        rows, name = PartitionRows(table, here, self.temporal_text), qualified(table.schema, table.name)

        def inside(name: str) -> str:
            return rows.of(work.names, KeyPlaces(self.connection, name, table, here))

        if kind != "EXCHANGE":
            self._run(f"DELETE FROM {name} WHERE {inside(name)}")
        elif other is None or self.present(other.schema, other.name) != self.present(table.schema, table.name):
            raise ReplayStopped("the table that a partition is exchanged with is not here as it was", remedy=BY_HAND)
        else:
            self._exchange(name, inside, qualified(other.schema, other.name))

    def _exchange(self, name: str, inside: Callable[[str], str], other: str) -> None:
        if self.connection.execute(f"SELECT 1 FROM {other} WHERE NOT {inside(other)} LIMIT 1").fetchall():
            raise ReplayStopped("rows come into a partition, WITHOUT VALIDATION, that are not of it", remedy=BY_HAND)
        goes = inside(name)
        self._run(f"CREATE OR REPLACE TEMP TABLE replay_exchanged AS SELECT * FROM {name} WHERE {goes}")
        self._run(f"DELETE FROM {name} WHERE {goes}")
        self._run(f"INSERT INTO {name} SELECT * FROM {other}")
        self._run(f"DELETE FROM {other}")
        self._run(f"INSERT INTO {other} SELECT * FROM replay_exchanged")
        self._run("DROP TABLE replay_exchanged")

    def _changed(self, before: Table | None, after: Table | None) -> None:
        if before is not None and after is None:
            self._run(f"DROP TABLE IF EXISTS {qualified(before.schema, before.name)}")
        elif before is None and after is not None:
            self.create(after)

    def _move(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        if old[0] == new[0]:
            self._run(f"ALTER TABLE {qualified(*old)} RENAME TO {quoted(new[1])}")
            return
        _check_place(new[0])
        # DuckDB does not move a table to another schema.
        self._run(f"CREATE TABLE {qualified(*new)} AS SELECT * FROM {qualified(*old)}")
        self._run(f"DROP TABLE {qualified(*old)}")

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)


def _check_place(schema: str) -> None:
    if schema.lower() in _OF_DUCKDB:
        raise ReplayStopped(
            f"DuckDB has a schema {schema} of its own, and takes no tables into it",
            remedy=f"leave the database {schema} out with --filter",
        )


def moved_tables(catalog: Catalog, pairs: Sequence[tuple[Name, Name]]) -> Iterator[tuple[Name, Name]]:
    """Yield the pairs of a RENAME TABLE that are tables, not views."""
    views = set(catalog.views)
    for old, new in pairs:
        if old in views:
            views = views - {old} | {new}
        else:
            yield old, new


def understood(catalog: Catalog, ddl: ParsedDdl, schema: str) -> tuple[Any, Catalog]:
    """Return the parsed statement and the catalog after it. Raises ReplayStopped if it is not understood."""
    if ddl.is_comment:
        return st.Ignored(""), catalog
    try:
        return ddl.statement, apply_parsed(catalog, ddl, schema).catalog
    except SnapshotStoreError as error:
        raise ReplayStopped(
            f"what a statement does to the tables is not known: {error}",
            remedy=BY_HAND,
        ) from None


def _moves_files() -> ReplayStopped:
    return ReplayStopped("a tablespace that goes or comes has rows that the log does not name", remedy=BY_HAND)


def _full(name: TableName, schema: str) -> tuple[str, str]:
    own, table = name
    return own or schema, table
