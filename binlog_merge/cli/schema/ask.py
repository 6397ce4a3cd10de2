"""`binlog-merge schema show | history | diff | skew | check | sql`: questions, each one call and one print."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.output import print_json, printable
from binlog_merge.cli.schema.options import (
    DEFAULT_STORE,
    AtTime,
    AtTso,
    Config,
    Format,
    Node,
    Physical,
    SchemaFormat,
    Store,
    Tables,
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
    from snapshot_store.history import TableVersion

_SHOW = """Show what tables looked like at a moment; at the end of the history unless told.

\b
  binlog-merge schema show shop.orders --store merged/
  binlog-merge schema show shop.orders --store merged/ --physical --at-tso 7507804165234491392
  binlog-merge schema show 'shop_*.orders_?' --store merged/ --node dn-1 -o sql"""

_HISTORY = """Show the versions of tables, oldest first: since when, by which DDL, read where, and what changed.

\b
  binlog-merge schema history shop.orders --store merged/
  binlog-merge schema history shop.orders --store merged/ --physical --from 2026-09-21T12:00 --to 2026-09-21T13:00"""

_DIFF = """Show what changed between two moments, and the ALTER TABLE that makes the change.

\b
  binlog-merge schema diff shop.orders --store merged/ --from 7507804164735369216 --to 7507804166102712321"""

_SKEW = """Show which physical tables differ from their logical table at a moment, and how their rows are reshaped.

With -o sql: the statements that would make them the same. Give TABLE (logical) to look at some tables only. REFUSED
says why rows cannot be reshaped: a merge stops at them.

\b
  binlog-merge schema skew --store merged/ --at-tso 7507804164986040321"""

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
  binlog-merge schema sql --store merged/ 'SELECT node, count(*) FROM versions GROUP BY ALL ORDER BY ALL'"""

From = Annotated[str | None, typer.Option("--from", help="From this TSO, order key or time on.")]
To = Annotated[str | None, typer.Option("--to", help="Up to and with this TSO, order key or time.")]


def show(
    tables: Tables,
    store: Store = DEFAULT_STORE,
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
    with opened(store) as one:
        moment = moment_in(one, at_tso, at_time)
        topology = topology_in(one, config)
        found: dict[Any, TableVersion] = {}
        for name in names:  # one by one: a table named must be there, of a pattern's only some
            lines = one.find([name], node, physical, topology)
            for version in questions.show(one.history_of(lines), lines, moment, one.beginning()):
                found[version.node, version.schema, version.name] = version
    print_shown(list(found.values()), output)


def print_shown(versions: "Sequence[TableVersion]", output: SchemaFormat) -> None:
    """Print tables as they were."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import values as schema_values

    _print(
        output,
        lambda: schema_text.shown_text(versions),
        lambda: {"tables": [schema_values.table_values(version) for version in versions]},
        lambda: schema_text.shown_sql(versions),
    )


def history(
    tables: Tables,
    store: Store = DEFAULT_STORE,
    begin: From = None,
    end: To = None,
    node: Node = None,
    physical: Physical = False,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show the versions of tables."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import values as schema_values
    from snapshot_store.ask import questions

    names = names_of(tables)
    bounds = [None if text is None else moment_of(o, text) for o, text in (("--from", begin), ("--to", end))]
    if bounds[0] is not None and bounds[1] is not None:
        check_order(bounds[0], bounds[1])
    with opened(store) as one:
        for bound in bounds:
            if bound is not None:
                check_clock(one, bound)
        lines = one.find(names, node, physical, topology_in(one, config))
        changes = questions.history(one.history_of(lines), lines, *bounds)
    _print(
        output,
        lambda: schema_text.history_text(changes),
        lambda: {"versions": [schema_values.history_values(change) for change in changes]},
        lambda: schema_text.history_sql(changes),
    )


def diff(
    tables: Tables,
    begin: Annotated[str, typer.Option("--from", help="The earlier TSO, order key or time.")],
    end: Annotated[str, typer.Option("--to", help="The later TSO, order key or time.")],
    store: Store = DEFAULT_STORE,
    node: Node = None,
    physical: Physical = False,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show what changed between two moments."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import values as schema_values
    from snapshot_store.ask import questions

    names = names_of(tables)
    bounds = moment_of("--from", begin), moment_of("--to", end)
    check_order(*bounds)
    with opened(store) as one:
        for bound in bounds:
            check_clock(one, bound)
        topology = topology_in(one, config)
        found = {}
        for name in names:
            lines = one.find([name], node, physical, topology)
            for made in questions.diff(one.history_of(lines), lines, *bounds, one.beginning()):
                found[made.line] = made
    diffs = list(found.values())
    _print(
        output,
        lambda: schema_text.diff_text(diffs),
        lambda: {"tables": [schema_values.diff_values(made) for made in diffs]},
        lambda: schema_text.statements_sql([(questions.name_of(made.line), made.statements) for made in diffs]),
    )


def skew(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Logical tables; all if none is named.", metavar="[TABLE...]")
    ] = None,
    store: Store = DEFAULT_STORE,
    at_tso: AtTso = None,
    at_time: AtTime = None,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Show which physical tables differ from their logical table."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import values as schema_values
    from snapshot_store.ask.skew import skew as ask

    names = names_of(tables or [])
    with opened(store) as one:
        moment = moment_in(one, at_tso, at_time)
        answer = ask(one.history_at(moment.key), topology_in(one, config), moment, names, one.beginning())
    skews = answer.skews
    _print(
        output,
        lambda: schema_text.skew_text(answer),
        lambda: {"compared": answer.compared, "skews": [schema_values.skew_values(s) for s in skews]},
        lambda: schema_text.statements_sql([(schema_text.heading(s.physical), s.statements) for s in skews]),
    )


def check(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Logical tables; all if none is named.", metavar="[TABLE...]")
    ] = None,
    store: Store = DEFAULT_STORE,
    config: Config = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Check logical against physical tables over the whole history."""
    from binlog_merge.cli.schema import text as schema_text
    from binlog_merge.cli.schema import values as schema_values
    from snapshot_store.ask.check import check as ask

    names = names_of(tables or [])
    with opened(store) as one:
        topology = topology_in(one, config)
        lines = [line for name in names for line in lines_of(one, name, topology)]
        checked = ask(one.history_of(lines) if names else one.load_history(), topology)
    counts = {n: getattr(checked, n) for n in ("logical_tables", "physical_tables", "versions")}
    problems = [f for f in checked.findings if f.is_problem or schema_values.refused_in(f)]
    lasting = [f for f in checked.problems if f.ends is None and f.skew is not None]
    _print(
        output,
        lambda: schema_text.check_text(checked),
        lambda: {
            **counts,
            "problems": len(problems),
            "findings": [schema_values.finding_values(finding) for finding in checked.findings],
        },
        lambda: schema_text.statements_sql(
            [(schema_text.finding_text(f), f.skew.statements if f.skew else ()) for f in lasting]
        ),
    )
    if problems:
        raise typer.Exit(EXIT_FOUND)


def sql(
    question: Annotated[str, typer.Argument(help="A statement, or - to read it from standard input.", metavar="SQL")],
    store: Store = DEFAULT_STORE,
    output: Format = SchemaFormat.text,
) -> None:
    """Ask in DuckDB's SQL."""
    import sys

    from binlog_merge.cli.schema import text as schema_text

    question = sys.stdin.read() if question == "-" else question
    with opened(store) as one:
        answer = one.query(question)
    _print(
        output,
        lambda: schema_text.rows_text(answer.columns, answer.rows),
        lambda: {"columns": answer.columns, "rows": answer.rows},
        lambda: schema_text.rows_sql(answer.columns, answer.rows),
    )


def _print(
    output: SchemaFormat,
    text: Callable[[], Iterable[str]],
    values: Callable[[], dict[str, Any]],
    statements: Callable[[], Iterable[str]],
) -> None:
    if output is SchemaFormat.json:
        print_json({"error": None, **values()})
        return
    lines = text() if output is SchemaFormat.text else statements()
    for line in lines:
        print(printable(line))


VERBS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("show", show, _SHOW),
    ("history", history, _HISTORY),
    ("diff", diff, _DIFF),
    ("skew", skew, _SKEW),
    ("check", check, _CHECK),
    ("sql", sql, _SQL),
)
