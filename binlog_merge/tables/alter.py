"""Alters the columns of a DuckDB table with rows: in place if DuckDB can, else by rebuilding the table.

In a rebuild, rows first get unchanged columns, converted ones, constants and AUTO_INCREMENT numbers; then the columns
that a server computes from these.
"""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.statement import StatementSession
from binlog_merge.tables.partitions import KeyPlaces, PartitionRows
from binlog_merge.tables.types import BY_HAND, definitions, duckdb_type, qualified, quoted, told_apart
from binlog_merge.tables.values import carries, compute_values, constant_of, convert_values, needed_columns
from binlog_merge.values.duckdb.collations import UnknownCollation, sort_key
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import DATES, NUMERIC, Family
from snapshot_store.mysql.sql.session import NO_AUTO_VALUE_ON_ZERO, NO_ZERO_IN_DATE

NEW: Final = "binlog_merge new "
"""The name of a table while it is rebuilt; none of MySQL's ends with a space."""


@dataclass(frozen=True)
class Alteration:
    """An ALTER of a table: `pairs` are the columns kept in the file after it, each with its old column if it has one.

    `old` are the columns that the file has now. `start` is the first number of a new AUTO_INCREMENT column. `alone`:
    the definition of one column is all that changes.
    """

    connection: Any
    before: Table
    after: Table
    pairs: tuple[tuple[Column, Column | None], ...]
    old: tuple[Column, ...]
    session: StatementSession
    start: int = 1
    temporal_text: bool = False
    alone: bool = False

    def carry_out(self) -> None:
        """Alter the table. Raises ReplayStopped, and UnsupportedInput if a value for the rows is not known."""
        self._refuse_zeros_in_dates()
        if not self._in_place():
            self._make_anew()

    @property
    def _name(self) -> str:
        return qualified(self.before.schema, self.before.name)

    @property
    def _here(self) -> frozenset[str]:
        return frozenset(column.name.lower() for column in self.old)

    def _in_place(self) -> bool:
        """Alter the table in place. Returns False, having changed nothing, if DuckDB cannot do the whole ALTER."""
        name, kept = self._name, [was for _, was in self.pairs if was is not None]
        order = [column for column in self.old if column in kept]
        added = [column for column, was in self.pairs if was is None]
        empty_added = all(
            c.nullable and c.generated is None and (c.default is None or c.default.kind == "null") for c in added
        )
        same = all(was is None or self._same(was, column) for column, was in self.pairs)
        at_end = [was is None for _, was in self.pairs] == [False] * len(kept) + [True] * len(added)
        if not (empty_added and same and at_end and order == kept and kept):
            return False
        for column in self.old:
            if column not in kept:
                self._run(f"ALTER TABLE {name} DROP COLUMN {quoted(column.name)}")
        steps = [(was.name, column.name) for column, was in self.pairs if was is not None and was.name != column.name]
        # By way of names that nobody has: two columns may have changed theirs with each other.
        for i, (was_name, _) in enumerate(steps):
            self._run(f"ALTER TABLE {name} RENAME COLUMN {quoted(was_name)} TO {quoted(f'{NEW}{i} ')}")
        for i, (_, new_name) in enumerate(steps):
            self._run(f"ALTER TABLE {name} RENAME COLUMN {quoted(f'{NEW}{i} ')} TO {quoted(new_name)}")
        for column in added:
            self._run(f"ALTER TABLE {name} ADD COLUMN {definitions([column], self.temporal_text)}")
        return True

    def _same(self, was: Column, column: Column) -> bool:
        types = duckdb_type(was.type, self.temporal_text), duckdb_type(column.type, self.temporal_text)
        return types[0] == types[1] and self._carries(was, column)

    def _carries(self, was: Column, column: Column) -> bool:
        text_stays = not self.temporal_text or was.type.fsp == column.type.fsp
        begins_to_count = column.auto_increment and not was.auto_increment
        return text_stays and not begins_to_count and carries(was, column)

    def _changes(self, was: Column, column: Column) -> bool:
        """Return whether the ALTER may change values; NULL, too, unless strict mode refuses that."""
        null_goes = not self.session.ddl.strict or column.type.name == "timestamp"
        return not self._carries(was, column) and (was.type != column.type or null_goes)

    def _refuse_zeros_in_dates(self) -> None:
        """Raise ReplayStopped for dates like 2020-01-00 that a server zeroes when it copies the table.

        It does so in NO_ZERO_IN_DATE without strict mode, and also in columns that the statement does not name. Only
        text has them here.
        """
        kept = [(was, column) for column, was in self.pairs if was is not None]
        told = self.session.ddl.strict or not self.session.ddl.sql_mode & NO_ZERO_IN_DATE or not self.temporal_text
        if told or all((was.type, was.nullable) == (column.type, column.nullable) for was, column in kept):
            return
        for was, column in kept:
            if was.type.name == column.type.name and was.type.name in ("date", "datetime"):
                zeros = f"{quoted(was.name)} LIKE '%-00%' AND {quoted(was.name)} NOT LIKE '0000-00-00%'"
                if self.connection.execute(f"SELECT 1 FROM {self._name} WHERE {zeros} LIMIT 1").fetchall():
                    raise ReplayStopped(
                        f"{self.before.schema}.{self.before.name}: the values that are there cannot be converted: what "
                        f"dates with a zero in column {was.name} become depends on whether the server copied the table",
                        remedy=BY_HAND,
                    )

    def _make_anew(self) -> None:
        name, new = self._name, qualified(self.before.schema, NEW)
        columns = definitions([column for column, _ in self.pairs], self.temporal_text)
        if not self.connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchall():
            self._run(f"DROP TABLE {name}")
            self._run(f"CREATE TABLE {name} ({columns})")
            return
        self._run(f"CREATE TABLE {new} ({columns})")
        sources = [self._source(i, column, was) for i, (column, was) in enumerate(self.pairs)]
        chosen, joins = ", ".join(value for value, _ in sources), " ".join(join for _, join in sources)
        self._run(f"INSERT INTO {new} SELECT {chosen} FROM {name} t {joins}")
        changed = {column.name.lower() for column, was in self.pairs if was is None or self._changes(was, column)}
        for column, was in self.pairs:
            if self._is_computed(column, was, changed):
                changed.add(column.name.lower())
                self.compute(new, column)
        self._run(f"DROP TABLE {name}")
        self._run(f"ALTER TABLE {new} RENAME TO {quoted(self.before.name)}")

    def _source(self, number: int, column: Column, was: Column | None) -> tuple[str, str]:
        """Return the SQL of a column's values, and the join that it needs; NULL for values computed later."""
        if was is not None and self._carries(was, column):
            return f"t.{quoted(was.name)}", ""
        here = f"new{number}"
        cast = f"CAST({here}.v AS {duckdb_type(column.type, self.temporal_text)})"
        if column.generated is None and was is not None:
            if column.auto_increment and not was.auto_increment:
                self._refuse_numbers(was)
            self.connection.register(here, pa.table(self._converted(column, was)))
            value = told_apart(was, f"t.{quoted(was.name)}")
            return cast, f"LEFT JOIN {here} ON {value} IS NOT DISTINCT FROM {here}.k"
        if column.auto_increment:
            rows = Numbering(self.connection, self.before, self._here, self.session, self.start, self.temporal_text)
            self.connection.register(here, rows.numbered(self._name))
            return cast, f"LEFT JOIN {here} ON t.rowid = {here}.k"
        if (constant := constant_of(column, self.after.columns, self.session, self.temporal_text)) is not None:
            self.connection.register(here, pa.table({"v": constant}))
            return cast, f"CROSS JOIN {here}"
        return "NULL", ""

    def _is_computed(self, column: Column, was: Column | None, changed: set[str]) -> bool:
        """Return whether a column's values must be computed: it is new, or a column that it depends on has changed."""
        if column.auto_increment or (was is not None and column.generated is None):
            return False
        needed = {other.name.lower() for other in needed_columns(column, self.after.columns)}
        return bool(needed) and (was is None or not self._carries(was, column) or bool(needed & changed))

    def _converted(self, column: Column, was: Column) -> dict[str, Any]:
        name = quoted(was.name)
        values = self._ask(f"SELECT DISTINCT {told_apart(was, name)} AS k, {name} AS v FROM {self._name}")
        old = values.column("v").combine_chunks()
        try:
            new = convert_values(was, column, old, self.session, self.temporal_text, self.alone)
        except ReplayStopped as error:
            table = f"{self.before.schema}.{self.before.name}"
            raise ReplayStopped(f"{table}: {error.message}", remedy=error.remedy) from None
        return {"k": values.column("k").combine_chunks(), "v": new}

    def _refuse_numbers(self, was: Column) -> None:
        """Raise ReplayStopped if a column that becomes AUTO_INCREMENT has NULLs or zeros, which a server numbers."""
        name, zeros = quoted(was.name), not self.session.ddl.sql_mode & NO_AUTO_VALUE_ON_ZERO
        numbered = f"{name} IS NULL" + (f" OR TRY_CAST({name} AS DOUBLE) = 0" if zeros else "")
        if self.connection.execute(f"SELECT 1 FROM {self._name} WHERE {numbered} LIMIT 1").fetchall():
            raise ReplayStopped(
                f"NULLs and zeros of column {was.name} become numbers that the log does not tell", remedy=BY_HAND
            )

    def compute(self, name: str, column: Column) -> None:
        """Compute a column for all rows of the table `name`, which has the columns after the ALTER."""
        refuse_rowid(self.after)
        needed = [other.name for other in needed_columns(column, self.after.columns)]
        here = {other.name.lower() for other, _ in self.pairs}
        if missing := [other for other in needed if other.lower() not in here]:
            raise ReplayStopped(
                f"column {column.name} is computed from {missing[0]}, which the file does not have", remedy=BY_HAND
            )
        rows = self._ask(f'SELECT rowid AS "replay n "{"".join(", " + quoted(n) for n in needed)} FROM {name}')
        values = compute_values(column, self.after.columns, rows, self.session, self.temporal_text)
        self.connection.register("computed", pa.table({"k": rows.column("replay n "), "v": values}))
        kind = duckdb_type(column.type, self.temporal_text)
        self._run(
            f"UPDATE {name} SET {quoted(column.name)} = CAST(c.v AS {kind}) FROM computed c WHERE {name}.rowid = c.k"
        )

    def _ask(self, sql: str) -> Any:
        return self.connection.sql(sql).to_arrow_table()

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)


_REMEDY: Final = (
    "give the DuckDB table the column by hand, with the numbers that the server has; then go on with --skip"
)
_IN_ORDER: Final = NUMERIC | DATES | {Family.BYTES, Family.BIT}


@dataclass(frozen=True)
class Numbering:
    """Numbers the rows of a table; `here` are the columns that the file has of it, in lower case."""

    connection: Any
    table: Table
    here: frozenset[str]
    session: StatementSession
    start: int
    temporal_text: bool

    def numbered(self, name: str) -> Any:
        """Return row ids and numbers, as Arrow columns `k` and `v`, for the rows of the file's table `name`.

        Raises ReplayStopped if the order of the rows is not known.
        """
        refuse_rowid(self.table)
        ((count,),) = self.connection.execute(f"SELECT count(*) FROM {name}").fetchall()
        compared = [("rowid", "")] if count <= 1 else [*self._partitions(name), *_order(self.table)]
        # A value that may stop the engine is no key of a window: it is computed before.
        values = ", ".join(f"{sql} AS o{i}" for i, (sql, _) in enumerate(compared))
        order = ", ".join(f"o{i}{direction}" for i, (_, direction) in enumerate(compared))
        first, step = _first(self.session, self.start), self.session.step
        number = f"{first} + {step} * (row_number() OVER (ORDER BY {order}) - 1)"
        rows = f"(SELECT rowid AS k, {values} FROM {name})"
        return self.connection.sql(f"SELECT k, {number} AS v FROM {rows}").to_arrow_table()

    def _partitions(self, name: str) -> list[tuple[str, str]]:
        """Return SQL of the places of a row's partition and subpartition, if the table has several."""
        if not self.table.partitioning:
            return []
        by_key = KeyPlaces(self.connection, name, self.table, self.here)
        try:
            places = PartitionRows(self.table, self.here, self.temporal_text).numbers(by_key)
            return [(sql, "") for sql in places]
        except ReplayStopped as error:
            raise ReplayStopped(
                f"in which order rows are numbered is not known: {error.message}", remedy=_REMEDY
            ) from None


def refuse_rowid(table: Table) -> None:
    """Raise ReplayStopped if a column called rowid hides DuckDB's row ids, which identify rows here."""
    if table.index_of("rowid") is not None:
        name = f"{table.schema}.{table.name}"
        raise ReplayStopped(f"rows of {name} cannot be told apart here: a column of it is called rowid", remedy=BY_HAND)


def _first(session: StatementSession, start: int) -> int:
    """Return the first number. Source: `innobase_next_autoinc`, as `ib_sequence_t` calls it with `start`."""
    if session.step == 1:
        return start
    offset = session.first if session.first <= session.step else 0
    return (abs(start - offset) // session.step + 1) * session.step + offset


def _order(table: Table) -> list[tuple[str, str]]:
    """Return SQL of the values in whose order a server counts, each with its direction."""
    index = _clustered(table)
    if index is None:
        raise ReplayStopped(
            f"{table.schema}.{table.name} has no key: in which order its rows are numbered only the server knows",
            remedy=_REMEDY,
        )
    found = []
    for part in index.parts:
        place = None if part.column is None else table.index_of(part.column)
        if place is None or part.length is not None:
            raise ReplayStopped(f"the order of key {index.name} is not known here", remedy=_REMEDY)
        found.append((_compared(table.columns[place]), " DESC" if part.descending else ""))
    return found


def _clustered(table: Table) -> Index | None:
    if table.engine != "InnoDB":
        return None
    # Of unique keys, InnoDB does not take one with a prefix of a column.
    whole = (key for key in table.row_keys if key.name == "PRIMARY" or all(part.length is None for part in key.parts))
    return next(whole, None)


def _compared(column: Column) -> str:
    """Return SQL of a value that sorts in the server's order of the column."""
    kind = column.type
    if kind.family is Family.TEXT:
        try:
            return sort_key(quoted(column.name), kind.collation or "", True)
        except UnknownCollation:
            pass
    elif kind.family in _IN_ORDER and not (kind.family is Family.DECIMAL and (kind.length or 10) > 38):
        return quoted(column.name)
    raise ReplayStopped(f"the order of column {column.name} ({kind.name}) is not known here", remedy=_REMEDY)
