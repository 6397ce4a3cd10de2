"""`binlog-merge report`: what a merged log holds and how it came to be, as a page, as JSON, or in a few lines."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say_error, start_log
from binlog_merge.cli.options import Merged, MergedArgument, local_path, merged_of, option
from binlog_merge.cli.output import counted, print_document, printable
from binlog_merge.errors import ConfigError, IoError, MergeError

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.files.log_folder import LogFolder
    from binlog_merge.observe.report.facts import Facts, Running
    from binlog_merge.observe.report.values import NodeLanes, SchemaFacts


HELP = """Say what a merged log holds and how it came to be: as one HTML page, for an incident ticket.

The page needs no network and no other file. It has the nodes' lanes over time with the DDL across them, the watermark
and who held it back, the versions of each table, skew, throughput, held rows and coordinations, faults and files. Its
size does not grow with the log.

\b
  binlog-merge report merged/ -o report.html
  binlog-merge report merged/ -o report.html --config cluster.yaml     the lanes from the nodes' own files
  binlog-merge report merged/                                          a few lines
  binlog-merge report merged/ -o json                                  the data behind the page
  binlog-merge report s3://bucket/merged -o html > report.html         the page on stdout

The whole log is read, and checked on the way. A merged log does not record which nodes took part in a transaction with
a commit TSO of its own: with --config that is read from the nodes' files, which a merge would read. What cannot be
found out is named on the page. Spark does not start.

Exit codes: 0; 28 where there is no merged log; that of the fault which ends the log early (12, for
one): the page is written nonetheless, and says it."""

Config = Annotated[
    Path | None,
    option("--config -c", "The cluster: its nodes' files are read, too.", "CLUSTER.YAML", local_path),
]
Output = Annotated[
    str,
    option(
        "-o --output",
        "text; json or jsonl: one object, also on failure; html; or a file to write: NAME.html.",
        "FORMAT|FILE.html",
    ),
]


def report(
    directory: MergedArgument = None,
    merged: Merged = None,
    config: Config = None,
    output: Output = "text",
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Report on a merged log."""
    start_log(log_level, log_format)
    _check_output(output)
    place = merged_of(directory, merged)
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.observe.report.document import document

    cluster = None if config is None else MergeConfig.load(config)
    with opened_log(place) as folder:
        facts = _facts(folder, cluster)
    _put(document(facts), output, facts.log.stopped)
    if facts.log.stopped is not None:
        fault = MergeError.from_dict(facts.log.stopped)
        say_error(fault)
        raise typer.Exit(fault.exit_code)


def _check_output(output: str) -> None:
    if output in _FORMATS:
        return
    if not output.lower().endswith((".html", ".htm")):
        raise ConfigError(
            f"--output: {output!r} is neither a format nor a page",
            remedy="give text, json, jsonl, html, or a file whose name ends in .html",
        )
    folder = Path(output).parent
    if not folder.is_dir():
        raise IoError(f"there is no directory {folder}", file=output, remedy="make it, or give another file")


def _facts(folder: "LogFolder", cluster: "MergeConfig | None") -> "Facts":
    from binlog_merge.cli.progress import progress
    from binlog_merge.log.log import Log
    from binlog_merge.observe.report.facts import Facts
    from binlog_merge.observe.report.log import read_log

    unknown: list[str] = []
    binlog = Log(folder)
    schemas = _schemas(folder, unknown)
    with progress() as shown:
        log = read_log(
            binlog, () if schemas is None else schemas.keys(), progress=lambda done, all: shown("log", done, all)
        )
        nodes = None if cluster is None else _nodes(cluster, binlog, unknown, shown)
    running = _running(folder, cluster, unknown)
    return Facts(folder.place(), time.time(), _version(), binlog.state, log, schemas, nodes, running, tuple(unknown))


def _schemas(folder: "LogFolder", unknown: list[str]) -> "SchemaFacts | None":
    from binlog_merge.cli.report_schemas import schema_facts

    try:
        with folder.schema_store() as (path, shown):
            return schema_facts(path, shown)
    except MergeError as error:
        unknown.append(f"Versions, skew, the nodes’ own DDL and coordinations: {_gist(error)}")
        return None


def _nodes(cluster: "MergeConfig", binlog: Any, unknown: list[str], shown: Callable[..., None]) -> "NodeLanes | None":
    from binlog_merge.observe.report.log import first_time
    from binlog_merge.observe.report.nodes import node_lanes

    try:
        return node_lanes(cluster, binlog.state, first_time(binlog), shown)
    except MergeError as error:
        unknown.append(f"What the nodes’ files have: {_gist(error)}")
        return None


def _running(folder: "LogFolder", cluster: "MergeConfig | None", unknown: list[str]) -> "Running":
    from binlog_merge.files.state_notes import MERGE_NOTE, NOTES_FOLDER, read_state_note
    from binlog_merge.observe.report.facts import Running
    from binlog_merge.observe.status.notes import merge_note
    from binlog_merge.observe.status.observer import Observer
    from binlog_merge.observe.status.values import Problem

    problems: list[Problem] = []
    merge_note(folder.directory, problems)  # whether it is one
    path = folder.directory / NOTES_FOLDER / MERGE_NOTE
    note = None if problems else read_state_note(path)
    unknown += [f"What the last run says: {problem.text}" for problem in problems]
    if note is None and not problems:
        unknown.append(f"What only the last run knows (who held back, what is held, warnings): there is no {path}.")
    with nullcontext() if cluster is None else folder.following(lambda text: None):
        status = None if cluster is None else Observer(cluster, folder).look()
    return Running(note or {}, status)


def _gist(error: MergeError) -> str:
    where = f" ({error.where()})" if error.where() else ""
    return f"{error.message}{where}; {error.remedy}" if error.remedy else f"{error.message}{where}"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("binlog-merge")
    except PackageNotFoundError:
        return "(not installed)"


def _put(values: dict[str, Any], output: str, stopped: Mapping[str, Any] | None) -> None:
    """Print or write the document; `stopped` is the error that ended the log early."""
    if output in ("json", "jsonl"):
        print_document({**values, "error": stopped}, output)
        return
    if output == "text":
        print("\n".join(printable(line) for line in _lines(values)), flush=True)
        return
    from binlog_merge.files.disk import replace_file
    from binlog_merge.observe.report.page import page

    data = page(values)
    if output == "html":
        typer.echo(data.decode(), nl=False)
        return
    replace_file(Path(output), data)
    print(printable(f"{output}: {_gist_of(values)}; {len(data):,} bytes"), flush=True)


def _gist_of(values: dict[str, Any]) -> str:
    log = values["log"]
    return ", ".join(counted(log[f"{noun}s"], noun) for noun in ("transaction", "statement", "row"))


_FORMATS: Final = ("text", "json", "jsonl", "html")
_LANES: Final = {
    "shared": "with a commit TSO, nodes not recorded",
    "unknown": "order key not in the log",
    "statements": "DDL and other statements",
}


def _lines(values: dict[str, Any]) -> list[str]:
    log, watermark = values["log"], values["watermark"]
    lines = [f"{values['merged']}: {_gist_of(values)}"]
    if log["from"] is not None:
        lines.append(f"  time       {log['from']} to {log['to']}")
    end = "end of input" if watermark["end_of_input"] else watermark["time"] or watermark["order_key"] or "none yet"
    by = f", held back by {watermark['held_back_by']}: {watermark['why']}" if watermark["held_back_by"] else ""
    lines.append(f"  watermark  {end}{by}")
    for name, found in (("lanes", values["timeline"]["lanes"]), ("tables", values["tables"])):
        for i, one in enumerate(found[:10]):
            count = f"{one['transactions']:,} transactions" if name == "lanes" else f"{one['rows']:,} rows"
            shown = _LANES.get(one["name"], one["name"]) if name == "lanes" else f"{one['schema']}.{one['table']}"
            lines.append(f"  {name if i == 0 else '':<10} {shown}  {count}")
        if len(found) > 10:
            lines.append(f"  {'':<10} and {len(found) - 10} more")
    skews = 0 if values["skew"] is None else len(values["skew"]["spans"])
    lines.append(f"  skew       {skews} {'stretch' if skews == 1 else 'stretches'}")
    lines += [f"  {p['severity']:<10} {p['text']}" for p in values["problems"]]
    lines += [f"  not known  {text}" for text in values["unknown"]]
    return lines
