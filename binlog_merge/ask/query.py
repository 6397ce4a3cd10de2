"""SQL over a merged log itself, in DuckDB: nothing is copied, and what a query does not need is not decoded.

    changes('shop.orders', start := …, stop := …, where := …, op := …, as_of := …, time_zone := …)
    transactions   ddl   schemas

Each call of `changes` becomes a relation that DuckDB reads as it goes. The query is planned over empty relations first:
the plan names the columns, and the parts of `before` and `after`, that it needs.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import pyarrow as pa
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from binlog_merge.ask.lists import (
    SCHEMA_COLUMNS,
    TRANSACTION_COLUMNS,
    ddl_batches,
    schema_rows,
    transaction_batches,
)
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.question import Question, Selection, select
from binlog_merge.log.read import batches
from binlog_merge.log.segments import DDL_COLUMNS
from binlog_merge.log.table_changes import FIELDS

_ARGUMENTS: Final = ("start", "stop", "where", "op", "as_of", "time_zone")
_REMEDY: Final = "ask over changes('SCHEMA.TABLE'), transactions, ddl and schemas; changes takes " + ", ".join(
    f"{name} := '…'" for name in _ARGUMENTS
)
Needed = Mapping[str, frozenset[str] | None]
"""The columns that a query needs; of `before` and `after` the parts, None for all."""


@dataclass
class _Relation:
    """A relation that is read anew for each scan; what fails while it is read is kept."""

    schema: Any
    read: Callable[[], Iterator[Any]]
    failed: MergeError | None = None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        try:
            yield from self.read()
        except MergeError as error:
            self.failed = error
            raise


@dataclass(frozen=True)
class Answer:
    """The answer to a query: its columns' names, and its rows as Arrow batches, which may be read once."""

    columns: tuple[str, ...]
    schema: Any
    batches: Iterator[Any]


def ask(binlog: Log, question: str, batch_rows: int = 10_000) -> Answer:
    """Return the answer to a question in DuckDB's SQL. Raises ConfigError for a wrong one, and what reading does."""
    text, calls = _calls(binlog, question)
    # Times are in UTC, whatever the machine's time zone: so are their days and hours.
    connection = duckdb.connect(config={"threads": 1, "enable_external_access": True})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        statements = connection.extract_statements(text)
        if len(statements) != 1:
            raise ConfigError("the query is not one statement", remedy=_REMEDY)
        for name, selection in calls.items():
            connection.register(name, selection.schema.empty_table())
        _lists(connection, binlog)
        # PIVOT asks for the values of a column first: what it needs then, no plan over empty relations says.
        planned = statements[0].type is not duckdb.StatementType.MULTI
        needed = _needed(connection, text) if calls and planned else dict.fromkeys(FIELDS)
        relations = {name: _relation(binlog, selection, needed) for name, selection in calls.items()}
        for name, relation in relations.items():
            connection.register(name, relation)
    except duckdb.Error as error:
        raise _wrong(error) from None
    with _telling(list(relations.values())):  # the first rows may be read at once
        reader = connection.sql(text)
        if reader is None:
            raise ConfigError("the statement asks for nothing", remedy=_REMEDY)
        columns_read = reader.to_arrow_reader(batch_rows)
    return Answer(
        tuple(_distinct(columns_read.schema.names)),
        columns_read.schema,
        _read(columns_read, list(relations.values()), connection),
    )


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """Yield names of which none is another's: n, n_1."""
    seen: set[str] = set()
    for name in names:
        free = name
        number = 0
        while free in seen or (number and free in names):
            number += 1
            free = f"{name}_{number}"
        seen.add(free)
        yield free


def _read(found: Any, relations: Sequence[_Relation], connection: Any) -> Iterator[Any]:
    try:
        with _telling(relations):
            yield from found
    finally:
        connection.close()


@contextmanager
def _telling(relations: Sequence[_Relation]) -> Iterator[None]:
    """Tell of DuckDB's errors what went wrong when a relation was read, if that is what it was."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        for relation in relations:
            if relation.failed is not None:
                raise relation.failed from None
        raise _wrong(error) from None


def _wrong(error: Exception) -> ConfigError:
    return ConfigError(f"the query: {str(error).strip()[:2000]}", remedy=_REMEDY)


def _calls(binlog: Log, question: str) -> tuple[str, dict[str, Selection]]:
    """Return the question with a name for each call of `changes`, and what the calls ask."""
    try:
        tokens = list(DuckDB.Tokenizer().tokenize(question))
    except TokenError as error:
        raise ConfigError(f"the query: {error}", remedy=_REMEDY) from None
    parts: list[str] = []
    calls: dict[str, Selection] = {}
    at, number = 0, 0
    while number < len(tokens):
        if tokens[number].text.lower() == "changes" and _is(tokens, number + 1, TokenType.L_PAREN):
            arguments, end = _arguments(tokens, number + 2)
            name = f"changes {len(calls) + 1}"
            calls[name] = _selection(binlog, arguments)
            parts += [question[at : tokens[number].start], f'"{name}"']
            at, number = tokens[end].end + 1, end
        number += 1
    return "".join([*parts, question[at:]]), calls


def _is(tokens: Sequence[Any], number: int, kind: Any) -> bool:
    return number < len(tokens) and tokens[number].token_type == kind


def _arguments(tokens: Sequence[Any], number: int) -> tuple[dict[str, str], int]:
    """Return the arguments of a call, the table's name as "", and the number of its closing parenthesis."""
    arguments: dict[str, str] = {}
    while number < len(tokens):
        name = ""
        if _is(tokens, number + 1, TokenType.COLON_EQ):
            name, number = tokens[number].text.lower(), number + 2
        if name in arguments or (name and name not in _ARGUMENTS) or not _literal(tokens, number):
            raise ConfigError(f"changes(…): {name or 'its first argument'} is not what it takes", remedy=_REMEDY)
        arguments[name] = tokens[number].text
        if _is(tokens, number + 1, TokenType.R_PAREN):
            return arguments, number + 1
        if not _is(tokens, number + 1, TokenType.COMMA):
            break
        number += 2
    raise ConfigError("changes(…) is not closed, or its arguments are no literals", remedy=_REMEDY)


def _literal(tokens: Sequence[Any], number: int) -> bool:
    return _is(tokens, number, TokenType.STRING) or _is(tokens, number, TokenType.NUMBER)


def _selection(binlog: Log, arguments: Mapping[str, str]) -> Selection:
    if "" not in arguments:
        raise ConfigError("changes(…) names no table", remedy=_REMEDY)
    given: dict[str, Any] = {name: value for name, value in arguments.items() if name not in ("", "op")}
    ops = [op.strip() for op in arguments["op"].split(",")] if "op" in arguments else None
    selection = select(binlog, Question(arguments[""], operations=ops, **given))
    # DuckDB's decimals have 38 digits.
    shape = selection.shape
    kinds = tuple(pa.string() if pa.types.is_decimal256(kind) else kind for kind in shape.types)
    return replace(selection, shape=replace(shape, types=kinds))


def _lists(connection: Any, binlog: Log) -> None:
    files = binlog.state.files
    connection.register(
        "transactions",
        _Relation(
            TRANSACTION_COLUMNS, lambda: (batch for file in files for batch in transaction_batches(binlog, file))
        ),
    )
    connection.register("ddl", _Relation(DDL_COLUMNS, lambda: ddl_batches(binlog)))
    connection.register(
        "schemas",
        _Relation(SCHEMA_COLUMNS, lambda: iter([pa.RecordBatch.from_pylist(schema_rows(binlog), SCHEMA_COLUMNS)])),
    )


def _needed(connection: Any, text: str) -> Needed:
    """Return the columns that the scans of a query's plan read; those of all its relations together."""
    read: dict[str, frozenset[str] | None] = {}
    plan = json.loads(connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall()[0][1])
    for path in _projections(plan):
        name, dot, part = path.partition(".")
        name, part = name.strip('"'), part.strip('"')
        known = read.get(name, frozenset())
        read[name] = None if not dot or known is None else known | {part}
    return read


def _projections(nodes: Sequence[Any]) -> Iterator[str]:
    for node in nodes:
        yield from _projections(node["children"])
        if node["name"].strip() == "PYTHON_ARROW_SCAN":
            columns = node["extra_info"].get("Projections", [])
            yield from [columns] if isinstance(columns, str) else columns


def _relation(binlog: Log, selection: Selection, needed: Needed) -> _Relation:
    """Return the relation of a call: what the query does not need is NULL."""
    schema, names = selection.schema, selection.shape.names
    fields = tuple(name for name in selection.fields if name in needed) or selection.fields[:1]
    parts: set[str] = set()
    for side in ("before", "after"):
        wanted = needed.get(side, frozenset())
        parts |= set(names) if wanted is None else wanted & set(names)
    if "before_absent" in fields or "after_absent" in fields:
        parts = set(names)
    kept = [name for name in names if name in parts]
    shape = selection.shape.only(kept, "the query") if kept else selection.shape
    narrow = replace(selection, fields=fields, shape=shape, whole=False)
    return _Relation(schema, lambda: (_widened(batch, schema) for batch in batches(binlog, narrow)))


def _widened(batch: Any, schema: Any) -> Any:
    """Return a batch with all columns of a schema; those that it lacks are NULL."""
    arrays = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        arrays.append(pa.nulls(len(batch), field.type) if place < 0 else _whole(batch.column(place), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole(array: Any, kind: Any) -> Any:
    if array.type.equals(kind) or not pa.types.is_struct(kind):
        return array
    there = {child.name: number for number, child in enumerate(array.type)}
    children = [
        array.field(there[child.name]) if child.name in there else pa.nulls(len(array), child.type) for child in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
