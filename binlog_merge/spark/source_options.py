"""The options of Spark's data source of changes, and the filters of a query: what they ask of a log, or of nodes, in
types that Spark has.

What a stream began with may be removed from the log meanwhile. A stream that goes on from its checkpoint does not need
the place of its option `start` any more, which may be of transactions that have been removed since. One that has no
checkpoint yet does.

Spark applies every filter again, so only what is certain is taken; nothing that is left out here is wrong.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import from_arrow_schema

from binlog_merge.ask.unmerged import Unmerged, plan, select_unmerged
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, MergeError, OutsideLog
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.columns import Shape
from binlog_merge.log.log import Log
from binlog_merge.log.place import parse_place
from binlog_merge.log.question import (
    MANY_FIELDS,
    AnySelection,
    ManySelection,
    Question,
    Selection,
    select_any,
    zero_dates_of,
)
from binlog_merge.log.reader import NoLongerInLog
from binlog_merge.log.table_changes import FIELDS
from binlog_merge.log.where import Where
from snapshot_store.model import Table
from snapshot_store.mysql.column_type import CHARACTERS, Family
from snapshot_store.mysql.sql.names import quote_name, quote_string

_OPTIONS: Final = frozenset(
    {"path", "table", "start", "stop", "where", "op", "columns", "fields", "asof", "temporal", "zerodates", "timezone",
     "partitionbytes", "maxfilespertrigger", "endofinput"}
)  # fmt: skip
_OF_ONE_TABLE: Final = ("where", "columns", "asof", "temporal", "zerodates")
_SPARK_TYPES: Final = {
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.decimal128(20, 0),
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read, by lower-case name. Raises ConfigError for one that does not exist."""

    values: dict[str, str]

    @classmethod
    def of(cls, given: Any) -> "Options":
        values = {name.lower(): value for name, value in given.items()}
        unknown = sorted(set(values) - _OPTIONS)
        if unknown:
            names = ", ".join(sorted(_OPTIONS))
            raise ConfigError(f"option {unknown[0]}: there is no such option", remedy=f"there are {names}")
        return cls(values)

    @property
    def place(self) -> str:
        if "path" not in self.values:
            raise ConfigError("nothing is named to read", remedy='write .load("merged/"), or .load("cluster.yaml")')
        return self.values["path"]

    @property
    def of_nodes(self) -> bool:
        """Return whether a cluster's nodes are read, which are not merged: the path is a configuration."""
        return self.place.endswith((".yaml", ".yml"))

    def listed(self, name: str) -> list[str] | None:
        return [part.strip() for part in self.values[name].split(",")] if name in self.values else None

    def number(self, name: str, default: int) -> int:
        text = self.values.get(name, str(default))
        if not text.isdecimal() or int(text) == 0:
            raise ConfigError(f"option {name}: {text!r} is no number greater than 0")
        return int(text)

    def of_stream(self, binlog: Log) -> tuple["Options", OutsideLog | None]:
        """Return the options without a start that was removed, and the error for a stream that needs it."""
        values, error = without_removed_start(binlog, self.values)
        return Options(values), error

    def selected(self, log: Log) -> AnySelection:
        """Return what the options select of a merged log, in types that Spark has."""
        if "endofinput" in self.values:
            raise ConfigError("option endOfInput: it is of a cluster that is not merged", remedy="leave it out")
        return _in_spark_types(select_any(log, self.question()))

    def selected_unmerged(self, unmerged: Unmerged) -> AnySelection:
        """Return what they select of a cluster that is not merged."""
        return _in_spark_types(select_unmerged(unmerged, self.question()))

    def plan(self) -> Unmerged:
        """Return the transactions of the cluster in order, which a merge would write."""
        for name in ("partitionbytes", "maxfilespertrigger"):
            if name in self.values:
                raise ConfigError(
                    f"option {name}: it is of a merged log", remedy="a task reads a file of output.max-size bytes"
                )
        end = self.values.get("endofinput", "false").lower()
        if end not in ("true", "false"):
            raise ConfigError(f"option endOfInput: it is true or false, not {end!r}")
        return plan(MergeConfig.load(self.place), end_of_input=end == "true")

    def question(self) -> Question:
        """Return what the options ask. Raises ConfigError."""
        temporal = self.values.get("temporal", "typed")
        if temporal not in ("typed", "text"):
            raise ConfigError(f"option temporal: it is typed or text, not {temporal!r}")
        question = Question(
            self.values.get("table"),
            self.values.get("start"),
            self.values.get("stop"),
            self.values.get("where"),
            self.listed("op"),
            self.listed("columns"),
            self.values.get("asof"),
            self.values.get("timezone", "UTC"),
            self.listed("fields"),
            temporal == "text",
            zero_dates_of("option zeroDates", self.values.get("zerodates", "stop")),
        )
        for name in _OF_ONE_TABLE if question.patterns is not None else ():
            if name in self.values:
                raise ConfigError(f"option {name} is for one table", remedy='name it: .option("table", "shop.orders")')
        return question


def spark_schema(selection: AnySelection) -> Any:
    """Return the schema of the rows, as Spark has it."""
    return from_arrow_schema(selection.schema)


def _in_spark_types(selection: AnySelection) -> AnySelection:
    if isinstance(selection, ManySelection):
        return selection
    types = tuple(map(_spark_type, selection.shape.types))
    return replace(selection, shape=Shape(selection.shape.names, types))


def _spark_type(kind: Any) -> Any:
    if pa.types.is_decimal256(kind):
        return pa.string()
    return _SPARK_TYPES.get(str(kind), kind)


def schema_of(options: Options) -> Any:
    """Return the columns of a merged log's rows: those of one table, or of many."""
    with opened_log(options.place) as folder:
        # A batch that begins with what was removed is refused when it is read.
        log = Log(folder)
        return spark_schema(options.of_stream(log)[0].selected(log))


def fitted_to(selection: AnySelection, schema: Any) -> AnySelection:
    """Return what is selected, of the columns only that a schema has. Raises ConfigError for others."""
    names = tuple(schema.fieldNames())
    known = MANY_FIELDS if isinstance(selection, ManySelection) else FIELDS
    for name in names:
        if name not in known:
            raise ConfigError(f"the schema has a column {name}; a log's are {', '.join(known)}")
    if isinstance(selection, ManySelection):
        for name in ("before", "after"):
            if name in names and schema[name].dataType.typeName() != "string":
                raise ConfigError(f"{name} of many tables is JSON text, a string", remedy="name one table, or parse it")
        return replace(selection, fields=names)
    wanted = dict.fromkeys(
        child.name for name in ("before", "after") if name in names for child in schema[name].dataType.fields
    )
    if wanted:
        whole = selection.whole and set(wanted) == set(selection.shape.names)
        selection = replace(selection, shape=selection.shape.only(list(wanted), "the schema"), whole=whole)
    return replace(selection, fields=names)


def without_removed_start(log: Log, values: Mapping[str, str]) -> tuple[dict[str, str], OutsideLog | None]:
    """Return a stream's options without a start that was removed from the log, and the error that says so."""
    kept = dict(values)
    if "start" in kept:
        try:
            log.between(parse_place("start", kept["start"], kept.get("timezone", "UTC")), None)
        except NoLongerInLog as error:
            del kept["start"]
            return kept, _for_stream(log, error)
    return kept, None


def check_goes_on(binlog: Log, first: int) -> None:
    """Raise OutsideLog if the first transaction behind a checkpoint was removed from the log."""
    try:
        binlog.check_there(first)
    except NoLongerInLog as error:
        raise _for_stream(binlog, error) from None


def _for_stream(binlog: Log, error: OutsideLog) -> OutsideLog:
    first = f"{binlog.cluster_uuid}:{binlog.state.first_rank}"
    return OutsideLog(
        f"{error.message}; the stream has not read it",
        file=error.file,
        remedy=f"read on with a new checkpointLocation and start {first}, the first transaction that is left: what was "
        "removed before it is missing from the stream's output, and must come from elsewhere (a copy of the table: "
        "`table-at`); keep files for longer than a stream may stand still (`retention`)",
    )


def pushed(log: Log, filters: Sequence[Any], selection: AnySelection) -> AnySelection:
    """Return what is selected, with what the filters say."""
    for one in filters:
        name, value = one.attribute[0] if hasattr(one, "attribute") else None, getattr(one, "value", None)
        if name == "op":
            selection = _ops(selection, one, value)
        elif name in ("commit_tso", "order_key") and len(one.attribute) == 1:
            low, high = _range(log, one, name, value)
            selection = replace(selection, first=max(selection.first, low), last=min(selection.last, high))
        elif isinstance(selection, ManySelection) and name in ("schema", "table"):
            selection = _named(selection, one, name)
    return selection if isinstance(selection, ManySelection) else _condition(selection, filters)


def _named(selection: ManySelection, one: Any, name: str) -> ManySelection:
    """Return what is selected of the schemas or tables that a filter leaves."""
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        wanted = frozenset([one.value])
    elif isinstance(one, ds.In):
        wanted = frozenset(one.value)
    else:
        return selection
    known = selection.schemas if name == "schema" else selection.tables
    left = wanted if known is None else known & wanted
    return replace(selection, schemas=left) if name == "schema" else replace(selection, tables=left)


_COMPARED: dict[Any, str] = {
    ds.EqualTo: "=", ds.GreaterThan: ">", ds.GreaterThanOrEqual: ">=", ds.LessThan: "<", ds.LessThanOrEqual: "<=",
}  # fmt: skip


def _condition(selection: Selection, filters: Sequence[Any]) -> Selection:
    """Return what is selected with a condition on the values of one side of the rows.

    Integers and decimals are compared by MySQL as by Spark, and texts that are equal in Spark are so in every
    collation. Nothing else is: a YEAR column takes 5 for 2005, a JSON document differs from its own text.
    """
    if selection.where is not None:
        return selection
    tables = selection.versions.tables()
    kinds = {
        name: kind
        for name, kind in zip(selection.shape.names, selection.shape.types, strict=True)
        if all(_alike(table, name, kind) for table in tables)
    }
    sides: dict[str, list[str]] = {"before": [], "after": []}
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 2 and path[0] in sides and path[1] in kinds:
            sides[path[0]] += _terms(one, path[1], kinds[path[1]])
    terms = max(sides.values(), key=len)
    if not terms:
        return selection
    names = frozenset(name.lower() for name in selection.shape.names)
    try:
        where = Where(" AND ".join(terms), elsewhere=names, option="filter", lenient=True)
        for table in tables:
            where.check(table)
    except MergeError:
        return selection
    return replace(selection, where=where)


_TEXTS: Final = CHARACTERS | {Family.INTEGER}
_NUMBERS: Final = frozenset({Family.INTEGER, Family.DECIMAL})


def _alike(table: Table, name: str, kind: Any) -> bool:
    """Return whether MySQL compares a column's values with others of Spark's type as Spark does.

    A DECIMAL and a text are compared as DOUBLE.
    """
    place = table.index_of(name)
    return place is None or table.columns[place].type.family in (_TEXTS if pa.types.is_string(kind) else _NUMBERS)


def _terms(one: Any, column: str, kind: Any) -> list[str]:
    exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    values = list(one.value) if isinstance(one, ds.In) else [getattr(one, "value", None)]
    right = (int, Decimal) if exact else (str,) if pa.types.is_string(kind) else ()
    if not values or any(not isinstance(value, right) or isinstance(value, bool) for value in values):
        return []
    name = quote_name(column)
    # With an exponent a number would be a DOUBLE.
    literals = [
        f"{value:f}" if isinstance(value, Decimal) else quote_string(str(value)) if not exact else str(value)
        for value in values
    ]
    if isinstance(one, ds.In):
        return [f"{name} IN ({', '.join(literals)})"]
    word = _COMPARED.get(type(one))
    return [f"{name} {word} {literals[0]}"] if word is not None and (exact or word == "=") else []


def _ops(selection: AnySelection, one: Any, value: Any) -> AnySelection:
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        return replace(selection, ops=tuple(op for op in selection.ops if op == value))
    if isinstance(one, ds.In):
        return replace(selection, ops=tuple(op for op in selection.ops if op in value))
    return selection


def _range(log: Log, one: Any, name: str, value: Any) -> tuple[int, int]:
    """Return the ranks that a filter on a transaction's place leaves; all of the log's if that is not certain."""
    every = log.state.first_rank, log.last_rank
    if value is None or (name == "order_key" and not re.fullmatch("[0-9]{54}", value)):
        return every
    try:
        low, high = _bounds(one, name, value)
        start = None if low is None else parse_place("filter", low)
        stop = None if high is None else parse_place("filter", high)
        found = log.between(start, None).first, log.between(None, stop).last
    except MergeError:
        return every
    return found


def _bounds(one: Any, name: str, value: Any) -> tuple[Any, Any]:
    """Return where the range may begin, and before what it ends."""
    text = str(value)
    after = str(int(text) + 1) if name == "commit_tso" else f"{int(text) + 1:054d}"
    if isinstance(one, ds.EqualTo | ds.EqualNullSafe):
        return text, after
    if isinstance(one, ds.GreaterThanOrEqual):
        return text, None
    if isinstance(one, ds.GreaterThan):
        return after, None
    if isinstance(one, ds.LessThan):
        return None, text
    if isinstance(one, ds.LessThanOrEqual):
        return None, after
    return None, None
