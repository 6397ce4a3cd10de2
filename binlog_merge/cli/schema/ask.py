"""`binlog-merge schema show | history | diff | skew | check | sql`: queries on a schema store."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from binlog_merge.cli.options import Merged, Output
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema.options import (
    AtTime,
    AtTso,
    Config,
    Format,
    Node,
    Physical,
    ReadStore,
    SchemaFormat,
    Tables,
    store_of,
)
from binlog_merge.cli.schema.store import (
    check_clock,
    check_order,
    lines_of,
    moment_in,
    moment_of,
    names_of,
    opened,
    topology_in,
)
from binlog_merge.errors import EXIT_FOUND

if TYPE_CHECKING:
    from snapshot_store.ask.questions import TableDiff, VersionChange
    from snapshot_store.ask.skew import Checked, SkewAt
    from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion
    from snapshot_store.names import Moment
    from snapshot_store.store.db import Store as SchemaStore

Answer = TypeVar("Answer")

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

From = Annotated[str | None, typer.Option("--from", help="From this TSO, order key or time on.")]
To = Annotated[str | None, typer.Option("--to", help="Up to and with this TSO, order key or time.")]


def show(
    tables: Tables,
    merged: Merged = None,
    store: ReadStore = None,
    at_tso: AtTso = None,
    at_time: AtTime = None,
    node: Node = None,
    physical: Physical = False,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show what tables looked like at a moment."""
    from snapshot_store.ask import questions

    names = names_of(tables)

    def ask(store: "SchemaStore") -> "list[TableVersion]":
        moment = moment_in(store, at_tso, at_time)
        topology = topology_in(store, config)
        versions: dict[Any, TableVersion] = {}
        for (
            name
        ) in names:  # separately: a table that is named must exist at the moment, of a pattern's tables only some
            lines = store.find([name], node, physical, topology)
            for version in questions.show(store.history_of(lines), lines, moment, store.beginning()):
                versions[version.node, version.schema, version.name] = version
        return list(versions.values())

    _answer(store_of(merged, store), output, ask, _forms_of_versions())


def print_shown(versions: "Sequence[TableVersion]", output: SchemaFormat) -> None:
    """Print versions of tables."""
    _print(output, versions, _forms_of_versions())


def _forms_of_versions() -> "_Forms":
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import text as schema_values

    return _Forms(
        schema_text.shown_text,
        lambda versions: {"tables": [schema_values.table_values(version) for version in versions]},
        "tables",
        schema_text.shown_sql,
    )


def history(
    tables: Tables,
    merged: Merged = None,
    store: ReadStore = None,
    begin: From = None,
    end: To = None,
    node: Node = None,
    physical: Physical = False,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show the versions of tables."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import text as schema_values
    from snapshot_store.ask import questions

    names = names_of(tables)
    bounds = [None if text is None else moment_of(o, text) for o, text in (("--from", begin), ("--to", end))]
    if bounds[0] is not None and bounds[1] is not None:
        check_order(bounds[0], bounds[1])

    def ask(store: "SchemaStore") -> "Sequence[VersionChange]":
        for bound in bounds:
            if bound is not None:
                check_clock(store, bound)
        lines = store.find(names, node, physical, topology_in(store, config))
        return questions.history(store.history_of(lines), lines, *bounds)

    forms = _Forms(
        schema_text.history_text,
        lambda changes: {"versions": [schema_values.history_values(change) for change in changes]},
        "versions",
        schema_text.history_sql,
    )
    _answer(store_of(merged, store), output, ask, forms)


def diff(
    tables: Tables,
    begin: Annotated[str, typer.Option("--from", help="The earlier TSO, order key or time.")],
    end: Annotated[str, typer.Option("--to", help="The later TSO, order key or time.")],
    merged: Merged = None,
    store: ReadStore = None,
    node: Node = None,
    physical: Physical = False,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show what changed between two moments."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import text as schema_values
    from snapshot_store.ask import questions

    names = names_of(tables)
    bounds = moment_of("--from", begin), moment_of("--to", end)
    check_order(*bounds)

    def ask(store: "SchemaStore") -> "list[TableDiff]":
        for bound in bounds:
            check_clock(store, bound)
        topology = topology_in(store, config)
        diffs = {}
        for name in names:
            lines = store.find([name], node, physical, topology)
            for found in questions.diff(_with_other_names(store, lines, bounds), lines, *bounds, store.beginning()):
                diffs[found.table, found.before is None] = found
        return list(diffs.values())

    forms = _Forms(
        schema_text.diff_text,
        lambda diffs: {"tables": [schema_values.diff_values(table) for table in diffs]},
        "tables",
        schema_text.diff_sql,
    )
    _answer(store_of(merged, store), output, ask, forms)


def _with_other_names(
    store: "SchemaStore", lines: "Sequence[HistoryKey]", bounds: "tuple[Moment, Moment]"
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


def skew(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Logical tables; all if none is named.", metavar="[TABLE...]")
    ] = None,
    merged: Merged = None,
    store: ReadStore = None,
    at_tso: AtTso = None,
    at_time: AtTime = None,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show which physical tables differ from their logical table."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import text as schema_values
    from snapshot_store.ask.skew import skew as skew_at

    names = names_of(tables or [])

    def ask(store: "SchemaStore") -> "SkewAt":
        moment = moment_in(store, at_tso, at_time)
        topology, history = topology_in(store, config), store.history_at(moment.key)
        return skew_at(history, topology, moment, names, store.beginning(), store.history_of)

    forms = _Forms(
        schema_text.skew_text,
        lambda answer: {
            "compared": answer.compared,
            "skews": [schema_values.skew_values(skew) for skew in answer.skews],
        },
        "skews",
        lambda answer: schema_text.statements_sql(
            [(schema_text.heading(skew.physical), skew.statements) for skew in answer.skews]
        ),
    )
    _answer(store_of(merged, store), output, ask, forms)


def check(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Logical tables; all if none is named.", metavar="[TABLE...]")
    ] = None,
    merged: Merged = None,
    store: ReadStore = None,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Check logical against physical tables over the whole history."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import text as schema_values
    from snapshot_store.ask.skew import check as checked_in

    names = names_of(tables or [])

    def ask(store: "SchemaStore") -> "Checked":
        topology = topology_in(store, config)
        lines = [line for name in names for line in lines_of(store, name, topology)]
        return checked_in(store.history_of(lines) if names else store.load_history(), topology)

    def problems(checked: "Checked") -> int:
        return sum(1 for finding in checked.findings if finding.is_problem or schema_values.refused_in(finding))

    forms = _Forms(
        schema_text.check_text,
        lambda checked: {
            **{name: getattr(checked, name) for name in ("logical_tables", "physical_tables", "versions")},
            "problems": problems(checked),
            "findings": [schema_values.finding_values(finding) for finding in checked.findings],
        },
        "findings",
        lambda checked: schema_text.statements_sql(
            [
                (schema_text.finding_text(finding), finding.skew.statements)
                for finding in checked.problems
                if finding.ends is None and finding.skew is not None
            ]
        ),
    )
    if problems(_answer(store_of(merged, store), output, ask, forms)):
        raise typer.Exit(EXIT_FOUND)


def sql(
    question: Annotated[str, typer.Argument(help="A statement, or - to read it from standard input.", metavar="SQL")],
    merged: Merged = None,
    store: ReadStore = None,
    output: Output = OutputFormat.text,
) -> None:
    """Ask in DuckDB's SQL."""
    import sys

    from binlog_merge.cli.schema import text as schema_text

    question = sys.stdin.read() if question == "-" else question
    forms = _Forms(
        lambda answer: schema_text.rows_text(answer.columns, answer.rows),
        lambda answer: {
            "columns": answer.columns,
            "rows": [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
            if output is OutputFormat.jsonl
            else answer.rows,
        },
        "rows",
    )
    _answer(store_of(merged, store), output, lambda store: store.query(question), forms)


class _Forms(NamedTuple):
    """The functions that turn an answer into the formats of -o: lines of text, JSON values, SQL statements.

    `each`: the key of the values that jsonl prints a line for.
    """

    text: Callable[[Any], Iterable[str]]
    values: Callable[[Any], dict[str, Any]]
    each: str
    statements: Callable[[Any], Iterable[str]] | None = None


def _answer(
    place: str, output: SchemaFormat | OutputFormat, ask: "Callable[[SchemaStore], Answer]", forms: _Forms
) -> "Answer":
    """Ask an opened store, print the answer, and return it."""
    with opened(place) as store:
        answer = ask(store)
    _print(output, answer, forms)
    return answer


def _print(output: SchemaFormat | OutputFormat, answer: Any, forms: _Forms) -> None:
    statements = forms.statements if output == SchemaFormat.sql else None
    if output in (SchemaFormat.json, SchemaFormat.jsonl):
        print_document(forms.values(answer), output, forms.each)
        return
    for line in (statements or forms.text)(answer):
        print(printable(line))


VERBS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("show", show, _SHOW),
    ("history", history, _HISTORY),
    ("diff", diff, _DIFF),
    ("skew", skew, _SKEW),
    ("check", check, _CHECK),
    ("sql", sql, _SQL),
)
