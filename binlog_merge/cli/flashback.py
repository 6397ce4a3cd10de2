"""`binlog-merge flashback`: writes what undoes changes of a merged log, for a server of the user's choice."""

import shutil
import sys
import tempfile
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from binlog_merge.cli.options import Merged, MergedArgument, SslCa, local_path, merged_of, option
from binlog_merge.cli.output import counted, printable
from binlog_merge.errors import EXIT_FOUND, ConfigError, IoError, io_error
from binlog_merge.whole_files import appearing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_merge.log.log import Log
    from binlog_merge.time_travel.selection import Reader, Selected

HELP = """Write the statements, or the binlog, that undo changes of a merged log: inverse rows in reverse order.

\b
  binlog-merge flashback merged/ --table shop.orders --start 2026-09-21T14:00:00Z --stop 2026-09-21T14:05:00Z > undo.sql
  binlog-merge flashback merged/ --table shop.orders --start UUID:4711 --stop UUID:4711 --where "state = 'paid'"
  binlog-merge flashback merged/ --table shop.orders --start T1 --stop T2 --check mysql://root@10.0.0.7:3306
  binlog-merge flashback merged/ --table shop.orders --start T1 --stop T2 -o binlog --to undo.binlog
  mysqlbinlog undo.binlog | mysql
  binlog-merge flashback merged/ --table shop.orders --start T1 --stop T2 --physical -c cluster.yaml --to undo/

Nothing is written to a server. --start and --stop are TSOs, order keys, times, GTIDs or FILE:POS in the merged log; the
range begins with the first and ends before the second; a transaction that --stop names by its GTID is included. --check
compares a server's rows with what the log left of them, prints those that have changed since (1), and writes nothing if
there are any.

An UPDATE is undone in the columns that it changed, found by the row's key; generated columns are the server's work.
As SQL, triggers and foreign keys of the server act; a binlog (-o binlog) sets rows byte for byte, without triggers.
A DDL on the table in the range stops it (60), as do row images that do not hold what it takes: nothing is guessed."""


class UndoFormat(StrEnum):
    """The choices of -o."""

    sql = "sql"
    binlog = "binlog"


Tables = Annotated[list[str], option("--table", "A table; several may be given.", "SCHEMA.TABLE")]
Start = Annotated[str, option("--start", "Where the changes begin.", "PLACE")]
Stop = Annotated[str, option("--stop", "Where they end.", "PLACE")]
WhereOption = Annotated[
    str | None,
    option("--where", "Only rows that satisfy this, before or after the change.", "CONDITION"),
]
Ops = Annotated[str | None, option("--op", "Only these: insert, update, delete, with commas.", "OPS")]
Forward = Annotated[bool, option("--forward", "Write what does the changes again, in their order.")]
AcrossDdl = Annotated[
    bool,
    option("--across-ddl", "Pass over DDL that leaves rows as they are: added or wider columns, keys."),
]
Check = Annotated[str | None, option("--check", "First compare the rows of this server.", "mysql://…")]
PasswordFile = Annotated[
    Path | None,
    option("--password-file", "Holds the server's password.", "PATH", local_path),
]
To = Annotated[
    Path | None,
    option("--to", "The file to write; standard output if none is given.", "PATH", local_path),
]
Physical = Annotated[
    bool,
    option("--physical", "For the physical tables, from the nodes' own binlogs: a file for each node in --to DIR."),
]
Config = Annotated[
    Path | None,
    option("--config -c", "The cluster, for --physical.", "FILE", local_path),
]
Gtids = Annotated[
    str | None,
    option(
        "--gtids",
        "The UUID of a binlog's own GTIDs; a new one if the log has GTIDs. none: for servers with gtid_mode=OFF.",
        "UUID",
    ),
]
TimeZone = Annotated[str, option("--time-zone", "Of times without one, and of TIMESTAMP in --where.")]


def flashback(
    directory: MergedArgument = None,
    *,
    merged: Merged = None,
    table: Tables,
    start: Start,
    stop: Stop,
    where: WhereOption = None,
    op: Ops = None,
    forward: Forward = False,
    across_ddl: AcrossDdl = False,
    check: Check = None,
    password_file: PasswordFile = None,
    ssl_ca: SslCa = None,
    to: To = None,
    physical: Physical = False,
    config: Config = None,
    gtids: Gtids = None,
    time_zone: TimeZone = "UTC",
    output: Annotated[UndoFormat, option("-o --output", "SQL, or a binlog file.")] = UndoFormat.sql,
) -> None:
    """Write what undoes changes of a merged log."""
    if physical and (config is None or to is None):
        raise ConfigError("--physical needs --config, which says where the nodes' binlogs are, and --to DIR")
    if check is not None and forward:
        raise ConfigError("--check compares with what the log left, which is what is undone: not with --forward")
    if gtids is not None and output is not UndoFormat.binlog:
        raise ConfigError("--gtids goes with -o binlog")
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.time_travel.selection import Reader

    with opened_log(merged_of(directory, merged)) as folder:
        log = Log(folder)
        selected = _selected(log, table, (start, stop), where, op, time_zone, across_ddl, output)
        if check is not None:
            _check(Reader(log, selected), check, password_file, ssl_ca)
        if physical:
            _by_nodes(Reader(log, selected), config, to, output, forward, gtids)
            return
        reader = Reader(log, selected)
        with _opened(to, output) as out:
            done = _write(reader, out, output, forward, gtids)
    ranks = f"{log.cluster_uuid}:{selected.first}-{selected.last}"
    between = f", of {ranks}" if selected.first <= selected.last else ": the range has no transaction"
    for line in [f"{done}{between}", *(f"passed over: {text}" for text in reader.passed)]:
        print(printable(line), file=sys.stderr)


def _selected(
    log: "Log",
    tables: list[str],
    between: tuple[str, str],
    where: str | None,
    op: str | None,
    time_zone: str,
    across_ddl: bool,
    output: UndoFormat,
) -> "Selected":
    """Return what is asked, checked. Raises ConfigError, UnknownTable and OutsideLog."""
    from binlog_merge.log.question import Question, name_of, operations_of
    from binlog_merge.log.versions import versions_between
    from binlog_merge.log.where import condition_on
    from binlog_merge.time_travel.passable_ddl import Written
    from binlog_merge.time_travel.selection import Selected

    first, last = Question(start=between[0], stop=between[1], time_zone=time_zone, option="--").range_in(log)
    versions = tuple(versions_between(log, *name_of(name), first, last) for name in dict.fromkeys(tables))
    ops = operations_of(None if op is None else [part.strip() for part in op.split(",")], "--")
    condition = None
    if where is not None:
        condition = condition_on([table for each in versions for table in each.tables()], where, time_zone)
    written = Written.NAMED if output is UndoFormat.sql else Written.PLACED
    return Selected(versions, first, last, condition, ops, across_ddl, written)


def _by_nodes(
    reader: "Reader", config: Path | None, to: Path | None, output: UndoFormat, forward: bool, gtids: str | None
) -> None:
    """Write a file for each node that has rows of the selection: all of them, or none."""
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.time_travel.physical import node_readers

    assert config is not None and to is not None
    for _ in reader.pieces():  # the merged log has the DDL that stops it
        pass
    readers = node_readers(reader.binlog, reader.selected, MergeConfig.load(config))
    if to.exists():
        raise ConfigError("the directory is there already", file=str(to), remedy="give --to another name, or remove it")
    part = to.with_name(f"{to.name}.part")
    counts = {}
    try:
        part.mkdir()
    except OSError as error:
        raise IoError(error.strerror or str(error), file=str(part), remedy="give --to another name") from error
    try:
        for node, own in readers.items():
            with _opened(part / f"{node}.{output}", output) as out:
                counts[node] = _write(own, out, output, forward, gtids)
        part.rename(to)
    except OSError as error:
        raise io_error(error, str(to)) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    for node, done in counts.items():
        print(printable(f"{node}: {done}, into {to / f'{node}.{output}'}"), file=sys.stderr)
    for text in reader.passed:
        print(printable(f"passed over: {text}"), file=sys.stderr)


def _check(reader: "Reader", server: str, password_file: Path | None, ssl_ca: Path | None) -> None:
    """Print the rows of a server that are not as the log left them, and exit with 1 if there are any."""
    import pymysql

    from binlog_merge.cli.replay_options import address_of
    from binlog_merge.errors import ServerRefused
    from binlog_merge.targets.server.mysql import MysqlTarget, Session
    from binlog_merge.time_travel.check import conflicts, expected
    from binlog_merge.time_travel.statements import key_of
    from snapshot_store.server import message_of

    address = address_of("--check", server, password_file)
    rows = expected(reader)
    session = Session(MysqlTarget(address, "", None if ssl_ca is None else str(ssl_ca)))
    session.open()
    found = 0
    try:
        for conflict in conflicts(rows, session):
            found += 1
            if found <= _MOST_SHOWN:
                columns = f": {', '.join(conflict.columns)}" if conflict.columns else ""
                print(printable(f"{conflict.table} WHERE {conflict.row}: {conflict.reason}{columns}"))
    except pymysql.MySQLError as error:
        raise ServerRefused(f"{address}: {message_of(error)}") from error
    finally:
        session.close()
    print(f"{address}: {len(rows)} rows compared, {found} are not as the log left them", file=sys.stderr)
    for table in reader.selected.tables:
        if any(key_of(version) is None for version in table.tables()):
            print(printable(f"{table.schema}.{table.name} has no key: its rows are not compared"), file=sys.stderr)
    if found:
        if found > _MOST_SHOWN:
            print(f"and {found - _MOST_SHOWN} more")
        raise typer.Exit(EXIT_FOUND)


_MOST_SHOWN = 100
_MOST_HELD = 16 << 20


@contextmanager
def _opened(to: Path | None, output: UndoFormat) -> "Iterator[IO[bytes]]":
    """Yield the file to write: a new one, which is there only when it is whole, or standard output."""
    if to is None:
        if output is UndoFormat.binlog and sys.stdout.isatty():
            raise ConfigError("a binlog is no text for a terminal", remedy="give --to FILE, or a pipe")
        with tempfile.SpooledTemporaryFile(_MOST_HELD) as whole:  # what is refused halfway leaves no part in a pipe
            try:
                yield whole
                whole.seek(0)
            except OSError as error:
                raise io_error(error, tempfile.gettempdir()) from error
            shutil.copyfileobj(whole, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if to.exists():
        raise ConfigError("the file is there already", file=str(to), remedy="give --to another name, or remove it")
    with appearing(to) as part, part.open("wb") as file:
        yield file


def _write(reader: "Reader", out: IO[bytes], output: UndoFormat, forward: bool, gtids: str | None) -> str:
    """Write what is asked, and say how much it is."""
    word = "done again" if forward else "undone"
    if output is UndoFormat.sql:
        from binlog_merge.time_travel.sql_script import Counts, script

        counts = Counts()
        for text in script(reader, counts, forward):
            out.write(text.encode("utf-8", "surrogateescape"))
        rows = ", ".join(counted(number, op) for op, number in sorted(counts.rows.items()) if number)
        return f"{counted(counts.transactions, 'transaction')} {word}" + (f" by {rows}" if rows else "")
    from binlog_merge.time_travel.binlog_file import Binlog, binlog

    description = reader.format_description()
    if description is None:
        raise ConfigError("nothing is published in the log yet")
    made = Binlog(description, _sid(gtids, reader.binlog))
    for data in binlog(reader, made, forward):
        out.write(data)
    return f"{counted(made.transactions, 'transaction')} {word} by {counted(made.rows, 'row')}"


def _sid(text: str | None, log: "Log") -> bytes | None:
    """Return the UUID of the GTIDs to give, None for none."""
    from uuid import UUID, uuid4

    if text == "none" or (text is None and not log.with_gtids):
        return None
    try:
        given = uuid4() if text is None else UUID(text)
    except ValueError:
        raise ConfigError(f"--gtids: {text!r} is no UUID", remedy="give a UUID, or none") from None
    if str(given) == log.cluster_uuid:
        raise ConfigError(
            f"--gtids {text}: a server that has the log's own GTIDs would pass over the transactions",
            remedy="give a new UUID, or none",
        )
    return given.bytes
