"""`binlog-merge filter`: shows what a filter file would do, without applying it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.options import Output, local_path, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.verbs import Verb
from binlog_merge.errors import ConfigError, DdlNotUnderstoodError

if TYPE_CHECKING:
    from binlog_merge.filters.ddl import DdlEvent
    from binlog_merge.filters.expressions import Op
    from binlog_merge.filters.filter import DdlDecision, Filter
    from snapshot_store.model import Table

HELP = """Filters: which tables, rows and statements pass, in the words of TiCDC (TOML) or of DM (YAML)."""

_TEST = """Say what a filter would do with tables and statements, and which of its rules decides.

The whole file is checked first; with --schema-file its expressions are too, on the tables that have any.

\b
  binlog-merge filter test --filter changefeed.toml --table shop.orders
  binlog-merge filter test --filter task.yaml --table shop.orders --ddl 'ALTER TABLE orders DROP COLUMN note'"""

_OPS: "tuple[Op, ...]" = ("insert", "update", "delete")
_OUTCOMES = {
    "apply": "carried out",
    "restate": "carried out in a merge as a CREATE TABLE with all columns; stops a replay",
    "ignore": "ignored: not carried out, but the table changes shape for the rows that follow",
    "discard": "discarded: as if it had never been there",
    "error": "stops with an error",
}


def test(
    filter_file: Annotated[Path, option("--filter", "The filter file.", "FILE", local_path)],
    table: Annotated[list[str] | None, option("--table", "A table, as schema.table; may be repeated.", "TABLE")] = None,
    ddl: Annotated[
        list[str] | None,
        option("--ddl", "A statement; names without a schema are in that of the first --table.", "SQL"),
    ] = None,
    schema_file: Annotated[
        Path | None,
        option(
            "--schema-file",
            "CREATE TABLE statements to check expressions on, as mysqldump writes them.",
            "PATH",
            local_path,
        ),
    ] = None,
    output: Output = OutputFormat.text,
) -> None:
    """Say what a filter would do with tables and statements."""
    from binlog_merge.filters.config import load_filter
    from binlog_merge.filters.filter import verify

    if not table and not ddl:
        raise ConfigError("nothing to test; give --table, --ddl or both")
    known = {(table.schema, table.name): table for table in _tables(schema_file)}
    made = verify(load_filter(filter_file), known.values())
    names = [_qualified(text) for text in table or ()]
    default = names[0][0] if names else ""
    tables = [_of_table(made, *name) for name in names]
    statements = [_of_statement(made, sql, default, known) for sql in ddl or ()]
    if output is not OutputFormat.text:
        print_document({"tables": tables, "statements": statements}, output)
    else:
        lines = [line for answer in tables for line in _table_lines(answer)]
        lines += [line for answer in statements for line in _statement_lines(answer)]
        print("\n".join(printable(line) for line in lines))


def _tables(path: Path | None) -> "list[Table]":
    from snapshot_store.ddl import parse_dump
    from snapshot_store.errors import SnapshotStoreError

    if path is None:
        return []
    try:
        return list(parse_dump(path.read_text(encoding="utf-8"), "").tables.values())
    except OSError as error:
        raise ConfigError(f"cannot read --schema-file: {error.strerror}", file=str(path)) from None
    except (SnapshotStoreError, UnicodeDecodeError) as error:
        raise ConfigError(f"--schema-file: {error}", file=str(path)) from None


def _qualified(text: str) -> tuple[str, str]:
    schema, dot, name = text.partition(".")
    if not (schema and dot and name):
        raise ConfigError(f"--table {text!r} must be schema.table")
    return schema, name


def _of_table(made: "Filter", schema: str, table: str) -> dict[str, Any]:
    chosen = made.table(schema, table)
    rows = {op: made.rows(schema, table, op) for op in _OPS}
    columns = made.columns(schema, table)
    return {
        "table": f"{schema}.{table}",
        "chosen": chosen.action == "Do",
        "rule": chosen.rule,
        "rows": {
            op: {
                "action": decision.action,
                "rule": decision.rule,
                "unless": made.expressions.texts(schema, table, op) if decision.action == "Do" else [],
            }
            for op, decision in rows.items()
        },
        "columns": None if columns is None else [rule.text for rule in columns.rules],
    }


def _of_statement(made: "Filter", sql: str, schema: str, known: "Mapping[tuple[str, str], Table]") -> dict[str, Any]:
    from binlog_merge.filters.ddl import ddl_events
    from snapshot_store.errors import DdlNotUnderstood

    try:
        events = ddl_events(sql, schema)
    except DdlNotUnderstood as error:
        raise DdlNotUnderstoodError(error.reason, remedy="check the statement") from None
    parts = [_of_part(event, made.ddl(event, table=known.get((event.schema, event.table)))) for event in events]
    return {"statement": sql, "parts": parts}


def _of_part(event: "DdlEvent", decision: "DdlDecision") -> dict[str, Any]:
    named = f"{event.schema}.{event.table}" if event.table else event.schema
    return {"kind": event.kind, "table": named, "outcome": decision.outcome, "rule": decision.rule}


def _table_lines(answer: dict[str, Any]) -> list[str]:
    by = f"  by {answer['rule']}" if answer["rule"] else ""
    lines = [answer["table"], f"  {'table':<8}{'chosen' if answer['chosen'] else 'not chosen'}{by}"]
    if not answer["chosen"]:
        return lines
    for op, rows in answer["rows"].items():
        if rows["action"] != "Do":
            lines.append(f"  {op:<8}{_stopped(rows['action'])}  by {rows['rule']}")
        else:
            unless = "".join(f", unless {text}" for text in rows["unless"])
            lines.append(f"  {op:<8}passes{unless}")
    if answer["columns"] is not None:
        lines.append(f"  {'columns':<8}{', '.join(answer['columns'])}")
    return lines


def _stopped(action: str) -> str:
    return "ignored" if action == "Ignore" else "stops with an error"


def _statement_lines(answer: dict[str, Any]) -> list[str]:
    lines = [answer["statement"]]
    for part in answer["parts"]:
        lines.append(f"  {part['kind']} of {part['table']}: {_OUTCOMES[part['outcome']]}")
        lines += [f"    by {part['rule']}"] if part["rule"] else []
    return lines if answer["parts"] else [*lines, "  changes no table: not carried over"]


app = typer.Typer(
    name="filter",
    help=HELP,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("test", cls=Verb, help=_TEST)(test)


@app.callback(invoke_without_command=True)
def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
