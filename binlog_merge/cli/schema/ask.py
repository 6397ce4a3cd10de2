"""`binlog-merge schema show | history | diff | skew | check | sql`: queries on a schema store."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from binlog_merge.cli.options import REQUIRED, Merged, Output, option, taking
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema.store import (
    AtTime,
    AtTso,
    Config,
    Format,
    Node,
    Physical,
    ReadStore,
    SchemaFormat,
    Tables,
    check_clock,
    check_order,
    lines_of,
    moment_in,
    moment_of,
    names_of,
    opened,
    store_of,
    topology_in,
)
from binlog_merge.errors import EXIT_FOUND

if TYPE_CHECKING:
    from snapshot_store.ask.questions import TableDiff, VersionChange
    from snapshot_store.ask.skew import Checked, SkewAt
    from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion
    from snapshot_store.names import Moment
    from snapshot_store.store.db import Store

_SHOW = """Show what tables looked like at a moment; at the end of the history unless told.

\b
  binlog-merge schema show shop.orders --merged merged/
  binlog-merge schema show shop.orders --merged merged/ --physical --at-tso 7507804165234491392
  binlog-merge schema show 'shop_*.orders_?' --merged merged/ --node dn-1 -o sql"""

_HISTORY = """Show the versions of tables, oldest first: since when, by which DDL, read where, and what changed.

\b
  binlog-merge schema history shop.orders --merged merged/
  binlog-merge schema history shop.orders --merged merged/ --physical --from 2026-09-21T12:00 --to 2026-09-21T13:00"""

_DIFF = """Show what changed between two moments, and the ALTER TABLE that makes the change.

\b
  binlog-merge schema diff shop.orders --merged merged/ --from 7507804164735369216 --to 7507804166102712321"""

_SKEW = """Show which physical tables differ from their logical table at a moment, and how their rows are reshaped.

With -o sql: the statements that would make them the same. Give TABLE (logical) to look at some tables only. REFUSED
says why rows cannot be reshaped: a merge stops at them.

\b
  binlog-merge schema skew --merged merged/ --at-tso 7507804164986040321"""

_CHECK = """Check logical against physical tables over the whole history; exit code 1 if there is more than "ahead".

\b
  ahead              a node changed first, the cluster's DDL came after: what an online DDL does
  behind             the cluster's DDL came first, the node was late
  lasting            the difference has not ended
  no-logical-table   rows of a physical table that no logical table takes
  no-physical-table  a logical table that no node has

\b
  REFUSED            rows cannot be reshaped: a merge stops at them, and the line says why"""

_SQL = """Ask in DuckDB's SQL. Nothing can be written, and nothing outside the store be read.

\b
  versions   every version: node (NULL: logical), schema_name, table_name, version_id, order_key, commit_tso,
             committed_at, dropped, ddl, file, position, origin, folded, definition (JSON)
  tables     the versions in force at the end; tables_at(TSO) those at a TSO
  columns    node, schema_name, table_name, version_id, order_key, ordinal, column_name, data_type, length, decimals,
             fsp, is_unsigned, charset, collation, nullable, default_kind, default_text, generated, comment
  indexes    node, schema_name, table_name, version_id, order_key, index_name, is_unique, kind, column_names
  databases  the versions of databases' defaults: charset, collation

\b
  binlog-merge schema sql --merged merged/ 'SELECT node, count(*) FROM versions GROUP BY ALL ORDER BY ALL'"""

From = Annotated[str | None, option("--from", "From this TSO, order key or time on.")]
To = Annotated[str | None, option("--to", "Up to and with this TSO, order key or time.")]
LogicalTables = Annotated[
    list[str] | None, typer.Argument(help="Logical tables; all if none is named.", metavar="[TABLE...]")
]
Earlier = Annotated[str, option("--from", "The earlier TSO, order key or time.")]
Later = Annotated[str, option("--to", "The later TSO, order key or time.")]


@dataclass(frozen=True)
class Asked:
    """What is asked of a store; each verb has some of these options."""

    tables: Tables = field(default_factory=list)
    merged: Merged = None
    store: ReadStore = None
    begin: From = None
    end: To = None
    at_tso: AtTso = None
    at_time: AtTime = None
    node: Node = None
    physical: Physical = False
    config: Config = None
    output: Format = SchemaFormat.text


@dataclass(frozen=True)
class AskedInSql:
    """What is asked of a store in SQL."""

    question: Annotated[str, typer.Argument(help="A statement, or - to read it from standard input.", metavar="SQL")]
    merged: Merged = None
    store: ReadStore = None
    output: Output = OutputFormat.text


def _show(asked: Asked) -> "Callable[[Store], list[TableVersion]]":
    from snapshot_store.ask import questions

    names = names_of(asked.tables)

    def ask(store: "Store") -> "list[TableVersion]":
        moment = moment_in(store, asked.at_tso, asked.at_time)
        topology = topology_in(store, asked.config)
        versions: dict[Any, TableVersion] = {}
        # Separately: a table that is named must exist at the moment, of a pattern's tables only some.
        for name in names:
            lines = store.find([name], asked.node, asked.physical, topology)
            for version in questions.show(store.history_of(lines), lines, moment, store.beginning()):
                versions[version.node, version.schema, version.name] = version
        return list(versions.values())

    return ask


def _history(asked: Asked) -> "Callable[[Store], Sequence[VersionChange]]":
    from snapshot_store.ask import questions

    names = names_of(asked.tables)
    given = (("--from", asked.begin), ("--to", asked.end))
    bounds = [None if text is None else moment_of(option, text) for option, text in given]
    if bounds[0] is not None and bounds[1] is not None:
        check_order(bounds[0], bounds[1])

    def ask(store: "Store") -> "Sequence[VersionChange]":
        for bound in bounds:
            if bound is not None:
                check_clock(store, bound)
        lines = store.find(names, asked.node, asked.physical, topology_in(store, asked.config))
        return questions.history(store.history_of(lines), lines, *bounds)

    return ask


def _diff(asked: Asked) -> "Callable[[Store], list[TableDiff]]":
    from snapshot_store.ask import questions

    names = names_of(asked.tables)
    bounds = moment_of("--from", asked.begin or ""), moment_of("--to", asked.end or "")
    check_order(*bounds)

    def ask(store: "Store") -> "list[TableDiff]":
        for bound in bounds:
            check_clock(store, bound)
        topology = topology_in(store, asked.config)
        diffs = {}
        for name in names:
            lines = store.find([name], asked.node, asked.physical, topology)
            for found in questions.diff(_with_other_names(store, lines, bounds), lines, *bounds, store.beginning()):
                diffs[found.table, found.before is None] = found
        return list(diffs.values())

    return ask


def _with_other_names(
    store: "Store", lines: "Sequence[HistoryKey]", bounds: "tuple[Moment, Moment]"
) -> "SchemaHistory":
    """Return the history of some tables, also under the names that they had or got between two moments."""
    from snapshot_store.ask import questions

    known = tuple(lines)
    while True:
        history = store.history_of(known)
        others = questions.renamed(history, known, *bounds)
        if not others:
            return history
        known = (*known, *sorted(others, key=lambda key: (key[0] or "", *key[1:])))


def _skew(asked: Asked) -> "Callable[[Store], SkewAt]":
    from snapshot_store.ask.skew import skew

    names = names_of(asked.tables or [])

    def ask(store: "Store") -> "SkewAt":
        moment = moment_in(store, asked.at_tso, asked.at_time)
        topology, history = topology_in(store, asked.config), store.history_at(moment.key)
        return skew(history, topology, moment, names, store.beginning(), store.history_of)

    return ask


def _check(asked: Asked) -> "Callable[[Store], Checked]":
    from snapshot_store.ask.skew import check

    names = names_of(asked.tables or [])

    def ask(store: "Store") -> "Checked":
        topology = topology_in(store, asked.config)
        lines = [line for name in names for line in lines_of(store, name, topology)]
        return check(store.history_of(lines) if names else store.load_history(), topology)

    return ask


def _sql(asked: AskedInSql) -> "Callable[[Store], Any]":
    question = sys.stdin.read() if asked.question == "-" else asked.question
    return lambda store: store.query(question)


def _problems(checked: "Checked") -> int:
    from binlog_merge.cli.schema.text import refused_in

    return sum(1 for finding in checked.findings if finding.is_problem or refused_in(finding))


class _Forms(NamedTuple):
    """The functions that turn an answer into the formats of -o: lines of text, JSON values, SQL statements.

    `each`: the key of the values that jsonl prints a line for.
    """

    text: Callable[[Any], Iterable[str]]
    values: Callable[[Any], dict[str, Any]]
    each: str
    statements: Callable[[Any], Iterable[str]] | None = None


def _forms_of(verb: str, output: SchemaFormat | OutputFormat) -> _Forms:
    from binlog_merge.cli.schema import text

    def rows(answer: Any) -> list[Any]:
        in_lines = output is OutputFormat.jsonl
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows] if in_lines else answer.rows

    forms = {
        "show": _Forms(
            text.shown_text,
            lambda versions: {"tables": [text.table_values(version) for version in versions]},
            "tables",
            text.shown_sql,
        ),
        "history": _Forms(
            text.history_text,
            lambda changes: {"versions": [text.history_values(change) for change in changes]},
            "versions",
            text.history_sql,
        ),
        "diff": _Forms(
            text.diff_text,
            lambda diffs: {"tables": [text.diff_values(table) for table in diffs]},
            "tables",
            text.diff_sql,
        ),
        "skew": _Forms(
            text.skew_text,
            lambda answer: {
                "compared": answer.compared,
                "skews": [text.skew_values(skew) for skew in answer.skews],
            },
            "skews",
            lambda answer: text.statements_sql(
                [(text.heading(skew.physical), skew.statements) for skew in answer.skews]
            ),
        ),
        "check": _Forms(
            text.check_text,
            lambda checked: {
                **{name: getattr(checked, name) for name in ("logical_tables", "physical_tables", "versions")},
                "problems": _problems(checked),
                "findings": [text.finding_values(finding) for finding in checked.findings],
            },
            "findings",
            lambda checked: text.statements_sql(
                [
                    (text.finding_text(finding), finding.skew.statements)
                    for finding in checked.problems
                    if finding.ends is None and finding.skew is not None
                ]
            ),
        ),
        "sql": _Forms(
            lambda answer: text.rows_text(answer.columns, answer.rows),
            lambda answer: {"columns": answer.columns, "rows": rows(answer)},
            "rows",
        ),
    }
    return forms[verb]


def print_shown(versions: "Sequence[TableVersion]", output: SchemaFormat) -> None:
    """Print versions of tables."""
    _print("show", versions, output)


def _print(verb: str, answer: Any, output: SchemaFormat | OutputFormat) -> None:
    forms = _forms_of(verb, output)
    if output in (SchemaFormat.json, SchemaFormat.jsonl):
        print_document(forms.values(answer), output, forms.each)
        return
    statements = forms.statements if output == SchemaFormat.sql else None
    for line in (statements or forms.text)(answer):
        print(printable(line))


def _verb(name: str, ask: "Callable[[Any], Callable[[Store], Any]]", taken: Any) -> Callable[..., None]:
    """Return the verb that asks an opened store, and prints the answer. `taken`: what `taking` returns."""

    def run(asked: Asked | AskedInSql) -> None:
        question = ask(asked)
        with opened(store_of(asked.merged, asked.store)) as store:
            answer = question(store)
        _print(name, answer, asked.output)
        if name == "check" and _problems(answer):
            raise typer.Exit(EXIT_FOUND)

    verb: Callable[..., None] = taken(run)
    return verb


_PLACE = ("tables", "merged", "store")
_AT = ("at_tso", "at_time")
_BETWEEN = ("begin", "end")
_WHICH = ("node", "physical", "config", "output")
_ROUTES = ("config", "output")
_LOGICAL = (LogicalTables, None)
_VERBS: "tuple[tuple[str, str, Callable[[Any], Callable[[Store], Any]], Any], ...]" = (
    ("show", _SHOW, _show, taking(Asked, (*_PLACE, *_AT, *_WHICH))),
    ("history", _HISTORY, _history, taking(Asked, (*_PLACE, *_BETWEEN, *_WHICH))),
    (
        "diff",
        _DIFF,
        _diff,
        taking(
            Asked,
            ("tables", *_BETWEEN, "merged", "store", *_WHICH),
            begin=(Earlier, REQUIRED),
            end=(Later, REQUIRED),
        ),
    ),
    ("skew", _SKEW, _skew, taking(Asked, (*_PLACE, *_AT, *_ROUTES), tables=_LOGICAL)),
    ("check", _CHECK, _check, taking(Asked, (*_PLACE, *_ROUTES), tables=_LOGICAL)),
    ("sql", _SQL, _sql, taking(AskedInSql)),
)
"""Each verb, its help, what it asks, and the options that it has."""

VERBS: tuple[tuple[str, Callable[..., None], str], ...] = tuple(
    (name, _verb(name, ask, taken), text) for name, text, ask, taken in _VERBS
)
