"""Row expressions: ignore rows by their values, as TiCDC's `ignore-…-value-expr` and DM's expression-filter do.

    insert   the new row            delete   the old row
    update   TiCDC: old expression on the old row OR new expression on the new row
             DM:    within a rule both must be true (a missing one is), any rule is enough

A row is ignored if the expression's value is 1; NULL keeps it. The rows of an event are an Arrow batch, over which
DuckDB evaluates the expression at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.errors import ConfigError
from binlog_merge.filters.tables import TableFilter
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.columns import TableColumns, engine_array, one_row, values_of
from binlog_merge.values.duckdb.compile import UnknownColumn, compile_filter, parse
from binlog_merge.values.duckdb.piece import ExpressionError, why_stopped
from snapshot_store.model import Column, Table
from snapshot_store.mysql.expr.nodes import Node

Op = Literal["insert", "update", "delete"]
_REMEDY = "correct the filter; no row was left out because of it"


@dataclass(frozen=True)
class ExpressionRule:
    """Expressions for the tables that `matcher` matches (case-sensitively, as in TiCDC); None ignores nothing.

    `dm` selects DM's two differences: an update is ignored if the old AND the new expression are true, and an
    expression with an unknown column ignores nothing instead of being an error.
    """

    matcher: Sequence[str]
    insert: str | None = None
    update_old: str | None = None
    update_new: str | None = None
    delete: str | None = None
    dm: bool = False

    def __bool__(self) -> bool:
        return any((self.insert, self.update_old, self.update_new, self.delete))


class ExpressionFilter:
    """Evaluates row expressions. `time_zone` (an IANA name or an offset) is that of TIMESTAMP values.

    An expression is compiled for the first row of a table definition, so a changed table is compiled again; `verify`
    finds errors before that. Errors are ConfigError. Not thread-safe; make one for each thread.
    """

    def __init__(self, rules: Iterable[ExpressionRule], time_zone: str = "UTC") -> None:
        self._rules = [_Rule(rule, f"event-filters[{i}]") for i, rule in enumerate(rules)]
        self._time_zone = time_zone

    def concerns(self, schema: str, table: str) -> bool:
        """Return whether any expression applies to a table."""
        return any(rule.given and rule.tables.matches(schema, table) for rule in self._rules)

    def texts(self, schema: str, table: str, op: Op) -> list[str]:
        """Return the expressions that may ignore a table's rows, each with its option."""
        keys = ("update_old", "update_new") if op == "update" else (op,)
        return [
            f"{_option(key)} {rule.given[key]!r}"
            for rule in self._rules
            if rule.tables.matches(schema, table)
            for key in keys
            if key in rule.given
        ]

    def verify(self, tables: Iterable[Table]) -> None:
        """Evaluate all expressions on a row of NULLs of each table. Raises ConfigError for the first that fails."""
        for rule in self._rules:
            rule.verify_syntax()
        for table in tables:
            held = [c.name for c in table.columns if c.generated is None or c.generated.stored]
            nothing = pa.RecordBatch.from_arrays([pa.nulls(1)] * len(held), held)
            for rule in self._chosen(table):
                for key in rule.given:
                    self._evaluate(rule, key, table, nothing, 1)

    def mask(self, table: Table, op: Op, before: Any = None, after: Any = None) -> Any:
        """Return which rows are ignored, as a BooleanArray.

        `before` and `after` are record batches whose columns have the table's names: as `rows_to_batch` gives them,
        with temporal values typed or as text. A virtual column that a batch lacks is computed.
        """
        length = (after if after is not None else before).num_rows
        ignored = pa.array([False] * length, pa.bool_())
        for rule in self._chosen(table):
            ignored = pc.or_(ignored, self._apply(rule, table, op, before, after, length))
        return ignored

    def columns(self, table: Table, op: Op, held: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return the columns whose values the expressions need, of the row before and of the row after.

        `held` are the columns that rows hold: a virtual one among them is not computed.
        """
        virtual = _virtual_columns(table, held)
        keys = {"insert": (None, "insert"), "update": ("update_old", "update_new"), "delete": ("delete", None)}[op]
        before, after = (
            frozenset(
                column.name
                for rule in self._chosen(table)
                if key in rule.given and (compiled := rule.compiled(key, table, virtual)) is not None
                for _, column in compiled.columns
            )
            for key in keys
        )
        return before, after

    def ignores(
        self,
        table: Table,
        op: Op,
        before: Sequence[Any] | Mapping[str, Any] | None = None,
        after: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> bool:
        """Return whether one row of plain values is ignored; see `expr_columns.one_row` for the values."""
        batches = [None if row is None else one_row(table, row) for row in (before, after)]
        return bool(self.mask(table, op, *batches)[0].as_py())

    def _chosen(self, table: Table) -> list["_Rule"]:
        return [rule for rule in self._rules if rule.given and rule.tables.matches(table.schema, table.name)]

    def _apply(self, rule: "_Rule", table: Table, op: Op, before: Any, after: Any, length: int) -> Any:
        if op == "insert":
            return self._evaluate(rule, "insert", table, after, length)
        if op == "delete":
            return self._evaluate(rule, "delete", table, before, length)
        old = self._evaluate(rule, "update_old", table, before, length)
        new = self._evaluate(rule, "update_new", table, after, length)
        if not rule.dm:
            return pc.or_(old, new)
        if not rule.given.keys() & {"update_old", "update_new"}:
            return old
        return pc.and_(
            old if "update_old" in rule.given else pc.invert(old), new if "update_new" in rule.given else pc.invert(new)
        )

    def _evaluate(self, rule: "_Rule", key: str, table: Table, batch: Any, length: int) -> Any:
        if batch is None or length == 0 or key not in rule.given:
            return pa.array([False] * length, pa.bool_())
        compiled = rule.compiled(key, table, _virtual_columns(table, batch.schema.names))
        if compiled is None:
            return pa.array([False] * length, pa.bool_())
        arrays = {}
        for place, column in compiled.columns:
            index = batch.schema.get_field_index(column.name)
            if index < 0:
                return self._absent(rule, key, table, column)
            arrays[place] = engine_array(column, batch.column(index), self._time_zone)
        if not arrays:
            arrays = {"c0": pa.nulls(length)}
        try:
            found = values_of(compiled.sql, pa.table(arrays))
        except duckdb.Error as error:
            raise rule.error(key, table, f"cannot be evaluated: {why_stopped(error) or error}") from None
        return found.combine_chunks()

    def _absent(self, rule: "_Rule", key: str, table: Table, column: Column) -> Any:
        raise rule.error(
            key, table, f"needs the column {column.name}, which the rows do not hold (binlog_row_image is not FULL)"
        )


@dataclass(frozen=True)
class _Compiled:
    sql: str
    columns: tuple[tuple[str, Column], ...]


class _Rule:
    def __init__(self, rule: ExpressionRule, name: str) -> None:
        self.name = name
        self.dm = rule.dm
        self.tables = TableFilter(rule.matcher, case_sensitive=True, name=f"{name}.matcher")
        texts = {
            "insert": rule.insert,
            "update_old": rule.update_old,
            "update_new": rule.update_new,
            "delete": rule.delete,
        }
        self.given: dict[str, str] = {key: text for key, text in texts.items() if text}
        self._nodes: dict[str, Node] = {}
        self._compiled: dict[tuple[str, Table, frozenset[str]], _Compiled | None] = {}

    def compiled(self, key: str, table: Table, present: frozenset[str]) -> _Compiled | None:
        """Return an expression compiled for a table; None if it ignores nothing.

        `present` are the virtual columns whose values rows hold.
        """
        place = (key, table, present)
        if place not in self._compiled:
            if len(self._compiled) > 1000:
                self._compiled.clear()
            self._compiled[place] = self._compile(key, table, present)
        return self._compiled[place]

    def verify_syntax(self) -> None:
        for key in self.given:
            try:
                self._node(key)
            except ExpressionError as error:
                raise self._syntax(key, error) from None

    def _node(self, key: str) -> Node:
        if key not in self._nodes:
            self._nodes[key] = parse(self.given[key])
        return self._nodes[key]

    def _compile(self, key: str, table: Table, present: frozenset[str] = frozenset()) -> _Compiled | None:
        columns = TableColumns(table, present)
        try:
            sql = compile_filter(self._node(key), columns)
        except UnknownColumn as error:
            if self.dm:
                return None
            where = f"{table.schema}.{table.name}"
            raise self.error(key, table, f"Cannot find column '{error.column}' from table '{where}' in it") from None
        except UnknownCollation as error:
            raise self.error(key, table, str(error)) from None
        except ExpressionError as error:
            raise self._syntax(key, error) from None
        return _Compiled(sql, tuple(columns.used.items()))

    def _syntax(self, key: str, error: ExpressionError) -> ConfigError:
        text = self.given[key]
        return ConfigError(
            f"There is a syntax error in {_option(key)} {text!r}: {error}", file=self.name, remedy=_REMEDY
        )

    def error(self, key: str, table: Table, reason: str) -> ConfigError:
        """Return an error about an expression on a table."""
        what = f"{_option(key)} {self.given[key]!r} on {table.schema}.{table.name}"
        return ConfigError(f"{what}: {reason} {self.given[key]!r}", file=self.name, remedy=_REMEDY)


def _option(key: str) -> str:
    return f"ignore-{key.replace('_', '-')}-value-expr"


def _virtual_columns(table: Table, held: Iterable[str]) -> frozenset[str]:
    names = set(held)
    return frozenset(c.name for c in table.columns if c.generated and not c.generated.stored and c.name in names)
