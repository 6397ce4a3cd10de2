"""The options of Spark's data source of changes, and what they ask of a log, or of nodes, in types that Spark has."""

from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from binlog_merge.ask import all_tables
from binlog_merge.ask.all_tables import AskedAll, Question
from binlog_merge.ask.read import Asked
from binlog_merge.ask.rows import FIELDS
from binlog_merge.ask.selection import patterns_of, select, select_all, zero_dates_of
from binlog_merge.ask.shape import Shape
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, OutsideLog
from binlog_merge.files.remote_log import opened_log
from binlog_merge.log.log import Log
from binlog_merge.spark.source_start import without_removed_start
from binlog_merge.unmerged.plan import Unmerged, plan
from binlog_merge.unmerged.selection import select_unmerged
from snapshot_store.names import NamePattern

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
class Chosen:
    """What is asked, and the ranks of the first and the last transaction."""

    asked: Question
    first: int
    last: int

    @property
    def schema(self) -> Any:
        """Return the schema of the rows, as Spark has it."""
        return from_arrow_schema(self.asked.schema)

    def fitted_to(self, schema: Any) -> "Chosen":
        """Return the same with the columns only that a schema has. Raises ConfigError for others."""
        return replace(self, asked=fitted_to(self.asked, schema))


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

    def chosen(self, binlog: Log) -> Chosen:
        """Return what the options ask of a merged log."""
        if "endofinput" in self.values:
            raise ConfigError("option endOfInput: it is of a cluster that is not merged", remedy="leave it out")
        if (patterns := self._patterns()) is not None:
            every = select_all(binlog, patterns, **self._common())
            return Chosen(every.asked, every.first, every.last)
        one = select(binlog, self.values["table"], **self._common(), **self._of_one_table())
        return Chosen(_in_spark_types(one.asked), one.first, one.last)

    def chosen_of(self, unmerged: Unmerged) -> Chosen:
        """Return what the options ask of a cluster that is not merged."""
        more = {} if self._patterns() is not None else self._of_one_table()
        found = select_unmerged(unmerged, self.values.get("table"), **self._common(), **more)
        return Chosen(_in_spark_types(found.asked), found.first, found.last)

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

    def _patterns(self) -> tuple[NamePattern, ...] | None:
        """Return the patterns of tables that are named; None if it is one table. Raises ConfigError."""
        found = patterns_of(self.values.get("table"))
        for name in _OF_ONE_TABLE if found is not None else ():
            if name in self.values:
                raise ConfigError(f"option {name} is for one table", remedy='name it: .option("table", "shop.orders")')
        return found

    def _common(self) -> dict[str, Any]:
        return {
            "start": self.values.get("start"),
            "stop": self.values.get("stop"),
            "op": self.listed("op"),
            "fields": self.listed("fields"),
            "time_zone": self.values.get("timezone", "UTC"),
        }

    def _of_one_table(self) -> dict[str, Any]:
        temporal = self.values.get("temporal", "typed")
        if temporal not in ("typed", "text"):
            raise ConfigError(f"option temporal: it is typed or text, not {temporal!r}")
        return {
            "where": self.values.get("where"),
            "columns": self.listed("columns"),
            "as_of": self.values.get("asof"),
            "temporal_text": temporal == "text",
            "zero_dates": zero_dates_of("option zeroDates", self.values.get("zerodates", "stop")),
        }


def _in_spark_types(asked: Question) -> Question:
    if isinstance(asked, AskedAll):
        return asked
    types = tuple(map(_spark_type, asked.shape.types))
    return replace(asked, shape=Shape(asked.shape.names, types))


def _spark_type(kind: Any) -> Any:
    if pa.types.is_decimal256(kind):
        return pa.string()
    return _SPARK_TYPES.get(str(kind), kind)


def schema_of(options: Options) -> Any:
    """Return the columns of a merged log's rows: those of `ask.rows` or of `ask.all_tables`."""
    with opened_log(options.place) as folder:
        # A batch that begins with what was removed is refused when it is read.
        binlog = Log(folder)
        return options.of_stream(binlog)[0].chosen(binlog).schema


def fitted_to(asked: Question, schema: Any) -> Question:
    """Return what is asked, of the columns only that a schema has. Raises ConfigError for others."""
    names = schema.fieldNames()
    known = all_tables.FIELDS if isinstance(asked, AskedAll) else FIELDS
    for name in names:
        if name not in known:
            raise ConfigError(f"the schema has a column {name}; a log's are {', '.join(known)}")
    if isinstance(asked, AskedAll):
        for name in ("before", "after"):
            if name in names and schema[name].dataType.typeName() != "string":
                raise ConfigError(f"{name} of many tables is JSON text, a string", remedy="name one table, or parse it")
        return replace(asked, fields=tuple(names))
    wanted = dict.fromkeys(
        child.name for name in ("before", "after") if name in names for child in schema[name].dataType.fields
    )
    if wanted:
        whole = asked.whole and set(wanted) == set(asked.shape.names)
        asked = replace(asked, shape=asked.shape.only(list(wanted), "the schema"), whole=whole)
    return replace(asked, fields=tuple(names))


def with_versions(asked: Question, now: Question) -> Question:
    """Return what was asked with the versions that the tables have now."""
    if isinstance(asked, AskedAll) and isinstance(now, AskedAll):
        return replace(asked, versions=now.versions)
    assert isinstance(asked, Asked) and isinstance(now, Asked)
    return replace(asked, versions=now.versions)
