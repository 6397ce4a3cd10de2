"""Reads filter files: TOML in TiCDC's format, YAML in DM's.

A TiCDC file is a changefeed's configuration: `case-sensitive`, `filter` and `sink.column-selectors` are read. A DM file
is a task's: `case-sensitive`, `timezone`, `block-allow-list`, `filters` and `expression-filter` are read, and which of
them its sources use. `ignore-commit-tso`, in `filter` or at the top of a DM file, is our own: a merged binlog has the
commit TSO of a transaction, not its start TSO.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from binlog_merge.config import held
from binlog_merge.config.yaml import YamlDocument, explain, load_yaml
from binlog_merge.errors import ConfigError
from binlog_merge.filters.events import BinlogEventRule, EventRule
from binlog_merge.filters.expressions import ExpressionRule
from binlog_merge.filters.filter import ColumnSelector, FilterSettings

Model = TypeVar("Model", bound=BaseModel)
_OFFSET = re.compile(r"[+-](0\d|1[0-4]):[0-5]\d")
_REMEDY = "correct the filter; nothing was run"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=lambda n: n.replace("_", "-"))


class _TableName(_Section):
    db_name: str
    tbl_name: str


class _BlockAllow(_Section):
    do_dbs: list[str] = []
    do_tables: list[_TableName] = []
    ignore_dbs: list[str] = []
    ignore_tables: list[_TableName] = []

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for BlockAllowList."""
        tables = {key: [(t.db_name, t.tbl_name) for t in getattr(self, key)] for key in ("do_tables", "ignore_tables")}
        return {"do_dbs": self.do_dbs, "ignore_dbs": self.ignore_dbs, **tables}


class _EventFilter(_Section):
    matcher: list[str]
    ignore_event: list[str] = []
    ignore_sql: list[str] = []
    ignore_insert_value_expr: str = ""
    ignore_update_old_value_expr: str = ""
    ignore_update_new_value_expr: str = ""
    ignore_delete_value_expr: str = ""

    def expressions(self) -> ExpressionRule:
        """Return the expressions on rows."""
        return ExpressionRule(
            self.matcher,
            self.ignore_insert_value_expr,
            self.ignore_update_old_value_expr,
            self.ignore_update_new_value_expr,
            self.ignore_delete_value_expr,
        )


class _TicdcFilter(_BlockAllow):
    rules: list[str] = []
    ignore_txn_start_ts: list[int] = []
    ignore_commit_tso: list[int] = []
    event_filters: list[_EventFilter] = []


class _Selector(_Section):
    matcher: list[str]
    columns: list[str]


class _Sink(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=lambda n: n.replace("_", "-"))
    column_selectors: list[_Selector] = []


class _Ticdc(BaseModel):
    """A changefeed's file; settings that are not about filters are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=lambda n: n.replace("_", "-"))
    case_sensitive: bool = False
    filter: _TicdcFilter = Field(default_factory=_TicdcFilter)
    sink: _Sink = Field(default_factory=_Sink)


class _DmFilter(_Section):
    schema_pattern: str
    table_pattern: str = ""
    events: list[str] = []
    sql_pattern: list[str] = []
    action: str


class _DmExpression(_Section):
    # The key is `schema`, a name that pydantic keeps for itself.
    schema_name: str = Field(alias="schema")
    table: str
    insert_value_expr: str = ""
    update_old_value_expr: str = ""
    update_new_value_expr: str = ""
    delete_value_expr: str = ""

    def rule(self) -> ExpressionRule:
        """Return the expressions on rows of one table."""
        matcher = ".".join('"' + name.replace('"', '""') + '"' for name in (self.schema_name, self.table))
        texts = (self.insert_value_expr, self.update_old_value_expr, self.update_new_value_expr, self.delete_value_expr)
        return ExpressionRule([matcher], *texts, dm=True)


class _DmInstance(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=lambda n: n.replace("_", "-"))
    source_id: str = ""
    block_allow_list: str = ""
    filter_rules: list[str] = []
    expression_filters: list[str] = []


class _Dm(BaseModel):
    """A task's file; settings that are not about filters are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=lambda n: n.replace("_", "-"))
    case_sensitive: bool = False
    timezone: str = "UTC"
    ignore_commit_tso: list[int] = []
    block_allow_list: dict[str, _BlockAllow] = {}
    filters: dict[str, _DmFilter] = {}
    expression_filter: dict[str, _DmExpression] = {}
    mysql_instances: list[_DmInstance] = []


def load_filter(path: Path) -> FilterSettings:
    """Read a filter file; `.yaml` and `.yml` are DM's, everything else is TiCDC's TOML. Raises ConfigError."""
    if path.suffix.lower() in (".yaml", ".yml"):
        return _from_dm(load_yaml(path), str(path))
    return _from_ticdc(_load_toml(path), str(path))


def _load_toml(path: Path) -> YamlDocument:
    try:
        values = tomllib.loads(held.read(path).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the filter: {error.strerror}", file=str(path)) from None
    except RecursionError:
        raise ConfigError("not valid TOML: nested too deeply", file=str(path), remedy=_REMEDY) from None
    except ValueError as error:
        raise ConfigError(f"not valid TOML: {error}", file=str(path), remedy=_REMEDY) from None
    return YamlDocument(values, {})


def _from_ticdc(document: YamlDocument, name: str) -> FilterSettings:
    known = ("filter", "case-sensitive", "sink")
    if not any(key in document.values for key in known):
        keys = ", ".join(sorted(document.values)) or "nothing"
        raise ConfigError(f"no section [filter]; the file has {keys}", file=name, remedy=_REMEDY)
    parsed = _validated(_Ticdc, document, name)
    given = parsed.filter
    return FilterSettings(
        case_sensitive=parsed.case_sensitive,
        rules=given.rules or ("*.*",),
        # The older lists count only where there are no rules, as in TiCDC.
        block_allow={} if given.rules else given.arguments(),
        ignore_start_ts=frozenset(given.ignore_txn_start_ts),
        ignore_commit_tso=frozenset(given.ignore_commit_tso),
        event_rules=[EventRule(e.matcher, e.ignore_event, e.ignore_sql) for e in given.event_filters],
        expression_rules=[e.expressions() for e in given.event_filters],
        column_selectors=[ColumnSelector(s.matcher, s.columns) for s in parsed.sink.column_selectors],
        folder=Path(name).parent,
        name=name,
    )


def _from_dm(document: YamlDocument, name: str) -> FilterSettings:
    parsed = _validated(_Dm, document, name)
    instance = _one_instance(parsed, name)
    lists = _named(parsed.block_allow_list, [instance.block_allow_list] if instance else None, name)
    if len(lists) > 1:
        raise ConfigError(
            f"{len(lists)} block-allow-lists: {', '.join(parsed.block_allow_list)}; name one in mysql-instances",
            file=name,
            remedy=_REMEDY,
        )
    filters = _named(parsed.filters, instance.filter_rules if instance else None, name)
    expressions = _named(parsed.expression_filter, instance.expression_filters if instance else None, name)
    return FilterSettings(
        case_sensitive=parsed.case_sensitive,
        block_allow=lists[0].arguments() if lists else {},
        ignore_commit_tso=frozenset(parsed.ignore_commit_tso),
        binlog_rules=[
            BinlogEventRule(f.schema_pattern, f.table_pattern, f.events, f.sql_pattern, f.action) for f in filters
        ],
        expression_rules=[e.rule() for e in expressions],
        time_zone=_time_zone(parsed.timezone, name),
        name=name,
    )


def _one_instance(parsed: _Dm, name: str) -> _DmInstance | None:
    used = {(i.block_allow_list, tuple(i.filter_rules), tuple(i.expression_filters)) for i in parsed.mysql_instances}
    if len(used) > 1:
        sources = ", ".join(i.source_id for i in parsed.mysql_instances)
        raise ConfigError(
            f"the sources {sources} use different filters; a merged binlog is of all of them: give it one",
            file=name,
            remedy=_REMEDY,
        )
    return parsed.mysql_instances[0] if parsed.mysql_instances else None


def _named(sections: Mapping[str, Any], wanted: list[str] | None, name: str) -> list[Any]:
    """Return the sections that a source names; all of them if there is no source."""
    if wanted is None:
        return list(sections.values())
    missing = [key for key in wanted if key and key not in sections]
    if missing:
        raise ConfigError(f"mysql-instances names {missing[0]!r}, which is not there", file=name, remedy=_REMEDY)
    return [sections[key] for key in wanted if key]


def _time_zone(text: str, name: str) -> str:
    try:
        if not _OFFSET.fullmatch(text):
            ZoneInfo(text)
        pc.cast(pa.array([0], pa.timestamp("us", tz=text)), pa.string())  # the cast that rows need
        return text
    except (OSError, ValueError, KeyError):
        raise ConfigError(f"timezone: {text!r} is not known", file=name, remedy=_REMEDY) from None


def _validated(model: type[Model], document: YamlDocument, name: str) -> Model:
    try:
        return model.model_validate(document.values)
    except ValidationError as error:
        raise explain(model, error, document, name) from None
