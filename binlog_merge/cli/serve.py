"""`binlog-merge serve`: serves a merged binlog to replicas and binlog readers over MySQL's protocol."""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log
from binlog_merge.cli.options import Merged, MergedArgument, Output, local_path, merged_of, option
from binlog_merge.cli.output import OutputFormat, counted, print_document, printable
from binlog_merge.cli.replay_options import password_of
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import ConfigError
from binlog_merge.redaction import Routine

if TYPE_CHECKING:
    from binlog_merge.binlog_server.log import PublishedLog
    from binlog_merge.binlog_server.offered import Offered
    from binlog_merge.binlog_server.server import ServeOptions
    from binlog_merge.streams.folder import StreamWriter
    from binlog_merge.streams.spec import StreamSpec
    from binlog_merge.streams.together import StreamKeeper
    from snapshot_store.server import ServerAddress

HELP = """Serve a merged binlog over MySQL's protocol, to replicas, CDC tools and mysqlbinlog.

Whatever reads a MySQL server's binlog reads the whole cluster here: MySQL replicas, by auto-position or by file and
position; mysqlbinlog --read-from-remote-server; Debezium, canal, mysql-replication and the like. Merges may go on
publishing: what the manifest says is sent, as soon as it says so, and nothing else. Each event's checksum is verified
before it is sent; a reader that reaches damage gets error 1236, and serve prints the place.

\b
  binlog-merge serve merged/                                          on 127.0.0.1:3307, user rep, without a password
  binlog-merge serve merged/ --host 0.0.0.0 --password-file pw --tls-cert cert.pem --tls-key key.pem
  binlog-merge serve merged/ --tables shop.db                         rows, too: snapshots of CDC tools, mysqldump
\b
  CHANGE REPLICATION SOURCE TO SOURCE_HOST='10.0.0.9', SOURCE_PORT=3307, SOURCE_USER='rep', SOURCE_PASSWORD='…',
    SOURCE_SSL=1, SOURCE_AUTO_POSITION=1;                             on a replica of MySQL
  mysqlbinlog --read-from-remote-server -h 10.0.0.9 -P 3307 -u rep -p --raw --stop-never binlog.000001
  mysql -h 10.0.0.9 -P 3307 -u rep -p -e 'SHOW BINARY LOGS'

With --tables, a DuckDB file that `replay --to duckdb:` has filled, or a new one where the log begins with the CREATE
TABLEs, is kept up with the log, and SELECTs from one table are answered from it as MySQL would. A consistent snapshot
tells its position in SHOW BINARY LOG STATUS, and streaming goes on from there.

The log is only read; a note beside it, in .status, says for `status` who reads and how far.

Readers that want another log than the whole one get a stream: some tables, columns, rows or kinds of events; one part
of a hash of tables or keys; what a MariaDB replica takes. A stream is made once for all its readers, and kept in
DIR/.streams/NAME: files of the same names as the log's, with GTIDs of its own. A reader gets it at a port of its
own, or by its user's name (with the password of all, or its own in a --users file). Settings: tables, filter (a file as
merge and replay take it), ddl=all|once|none, rows-query, hash=table|key with into=N, dialect=mariadb, port, user.

\b
  binlog-merge serve merged/ --stream 'orders tables=shop.orders*,!shop.orders_tmp port=3310'
  binlog-merge serve merged/ --stream 'part hash=key into=4 port=3320'      four streams, at 3320 to 3323
  binlog-merge serve merged/ --stream 'maria dialect=mariadb port=3330'     for CHANGE MASTER TO and mariadb-binlog -R
  binlog-merge serve merged/ --streams streams.yaml                         the same in a file, by name, under streams:

What a replica does with what it was sent, nobody hears here. Servers that are named with --replica are asked, every few
seconds, and `status` says which of them has stopped, with what error.

\b
  binlog-merge serve merged/ --replica mysql://monitor@10.0.0.20:3306 --replica-password-file monitor.pw

There is one user, or those of a file, each with hashes of passwords (`binlog-merge password` makes them) and the hosts
from which it may come. Beyond this machine a password is needed. TLS is always offered, with a certificate of its own
if none is given.

\b
  users:
    - {name: rep, password: $A$005$…, hosts: [10.0.0.%, 192.168.1.0/24]}
    - {name: cdc, password: [$A$005$…, "*A4B6…"]}            without hosts: from everywhere; any of the hashes will do

The server's id is the configuration's `output.server-id`,
its UUID that of the GTIDs. Readers may come before anything is published; where no merge has even begun, it waits
for the first, and then listens. It ends with Ctrl-C (exit code 130) or SIGTERM (143); with 28 if the directory becomes
another output's."""


def serve(
    directory: MergedArgument = None,
    merged: Merged = None,
    host: Annotated[str, option("--host", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "The port; 0: any that is free.", min=0, max=65535)] = 3307,
    user: Annotated[str, option("--user", "The one user that there is, without --users.")] = "rep",
    password_file: Annotated[
        Path | None,
        option("--password-file", "Holds the user's password.", "PATH", local_path),
    ] = None,
    users: Annotated[
        Path | None,
        option("--users", "Users with hashes, in YAML; read again when it changes.", "FILE", local_path),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        option(
            "--tls-cert",
            "The certificate for TLS (PEM); default: one of its own, which nobody vouches for.",
            "FILE",
            local_path,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        option("--tls-key", "The certificate's key, if it is not in its file.", "FILE", local_path),
    ] = None,
    tables: Annotated[
        Path | None,
        option(
            "--tables",
            "Answer SELECTs of rows, too, from this DuckDB file, which is kept up with the log.",
            "FILE.db",
            local_path,
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        option(
            "--tls-ca",
            "Serve only clients with a certificate of this CA (PEM); with --tls-required.",
            "FILE",
            local_path,
        ),
    ] = None,
    tls_required: Annotated[bool, option("--tls-required", "Serve nobody without TLS.")] = False,
    processes: Annotated[
        int,
        option(
            "--processes",
            "All but the first only send the log, to clients without TLS, so that other clients' statements do "
            "not slow them down.",
            min=1,
            max=64,
        ),
    ] = 1,
    max_connections: Annotated[int, option("--max-connections", "How many clients may be logged in.", min=1)] = 200,
    max_logins: Annotated[
        int,
        option("--max-logins", "How many may be connected and not logged in; the oldest leaves for one more.", min=1),
    ] = 100,
    max_statement: Annotated[int, option("--max-statement", "The longest statement.", "BYTES", min=1024)] = 1 << 18,
    max_variables: Annotated[
        int,
        option("--max-variables", "The most that all variables of a session may hold.", "CHARACTERS", min=1024),
    ] = 1 << 19,
    replica: Annotated[
        list[str] | None,
        option(
            "--replica",
            "A server that follows the log: it is asked whether it applies what it gets; may be repeated. "
            "The user needs REPLICATION CLIENT there (MariaDB: REPLICA MONITOR).",
            "mysql://USER@HOST:PORT",
        ),
    ] = None,
    replica_password_file: Annotated[
        Path | None,
        option(
            "--replica-password-file",
            "Holds the password of --replica; else the URL's, or MYSQL_PWD.",
            "PATH",
            local_path,
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        option("--stream", "A stream's name and settings; may be repeated.", "'NAME KEY=VALUE …'"),
    ] = None,
    streams: Annotated[
        Path | None,
        option("--streams", "A file that declares streams.", "FILE", local_path),
    ] = None,
    streams_folder: Annotated[
        Path | None,
        option(
            "--streams-folder",
            "Where streams are kept; needed for a log in an object store.  [default: DIR/.streams]",
            "DIR",
            local_path,
        ),
    ] = None,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Serve a merged binlog over MySQL's protocol."""
    start_log(log_level, log_format)
    from binlog_merge.binlog_server.log import PublishedLog
    from binlog_merge.binlog_server.server import ServeOptions
    from binlog_merge.binlog_server.settings import Limits
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.streams.spec import load_streams

    place = merged_of(directory, merged)
    password = "" if password_file is None else password_of(password_file)
    if password_file is not None and not password:
        raise ConfigError(
            "the password is empty",
            file=str(password_file),
            remedy="write it into the first line; or leave out --password-file, to serve this machine without one",
        )
    if users is not None and password_file is not None:
        raise ConfigError("--users has the passwords: leave out --password-file")
    if tls_ca is not None and not tls_required:
        raise ConfigError("--tls-ca goes with --tls-required: without TLS nobody shows a certificate")
    limits = Limits(max_connections, max_logins, max_statement, max_variables)
    replicas = _replicas(replica or [], replica_password_file)
    options = ServeOptions(
        host, port, user, password, tls_cert, tls_key, tls_ca, tls_required, users, limits, processes, replicas
    )
    specs = load_streams(streams, stream or [])
    if specs and streams_folder is None and is_uri(place):
        raise ConfigError(
            "streams of a log in an object store need a folder here", remedy="give --streams-folder, and keep it"
        )
    with opened_log(place, schema=bool(specs), awaited=True) as folder, folder.following(_report):
        _serve(PublishedLog.awaited(folder, _report), options, specs, streams_folder, tables, output)


def _replicas(urls: Sequence[str], password_file: Path | None) -> "tuple[ServerAddress, ...]":
    from snapshot_store.server import ServerAddress

    if password_file is not None and not urls:
        raise ConfigError("--replica-password-file goes with --replica", remedy="name the servers, or leave it out")
    password = None if password_file is None else password_of(password_file)
    try:
        return tuple(ServerAddress.parse(url, password) for url in urls)
    except ValueError as error:
        raise ConfigError(f"--replica: {error}", remedy="write mysql://USER@HOST:PORT") from None


def _serve(
    log: "PublishedLog",
    options: "ServeOptions",
    specs: "Sequence[StreamSpec]",
    streams_folder: Path | None,
    tables: Path | None,
    output: OutputFormat,
) -> None:
    from binlog_merge.binlog_server.accounts import accounts_in
    from binlog_merge.binlog_server.server import BinlogServer
    from binlog_merge.binlog_server.settings import take_descriptors, too_few
    from binlog_merge.streams.folder import FOLDER
    from binlog_merge.streams.together import StreamKeeper

    root = streams_folder or log.folder.directory / FOLDER
    if warning := too_few(take_descriptors(), options.limits):
        _report(warning)
    with ExitStack() as stack:
        kept = None
        if tables is not None:
            from binlog_merge.binlog_server.settings import take_of_system
            from binlog_merge.binlog_server.tables.keeper import Tables

            take_of_system()
            kept = stack.enter_context(Tables(log, tables, _report))
        keeper = stack.enter_context(StreamKeeper(log.folder, root, specs, lambda: log.view().state, _report))
        offered = [_offered(log, writer, keeper) for writer in keeper.writers]
        server = stack.enter_context(BinlogServer(log, options, _report, offered, kept))
        view = log.view()
        if view.key_ends_transaction:
            _report("order keys stand after XID (output.cts), which crashes MySQL replicas: they will be refused")
        ports = server.stream_ports()
        _tell(log, server.address, options, {spec.name: (ports.get(spec.name), spec.user) for spec in specs}, output)
        names = None if options.users is None else {account.user for account in accounts_in(options.users)}
        if any(spec.hash == "key" and spec.ddl != "none" for spec in specs):
            _report(
                "of a hash of keys each stream has all DDL: a server that follows them as channels must have caught up "
                "with all before one changes a table's columns (docs/how-to/streams.md)"
            )
        for spec in specs:
            if spec.user and names is not None and spec.user not in names:
                _report(
                    f"stream {spec.name}: {options.users} has no user {printable(spec.user)}, so none gets it by name"
                )
        server.run()


def _tell(
    log: "PublishedLog",
    address: tuple[str, int],
    options: "ServeOptions",
    streams: Mapping[str, tuple[int | None, str]],
    output: OutputFormat,
) -> None:
    """Print what is served, where and to whom."""
    view = log.view()
    file, position = view.end
    if output is not OutputFormat.text:
        values = {
            "merged": str(log.folder),
            "host": address[0],
            "port": address[1],
            "user": options.user if options.users is None else None,
            "users": None if options.users is None else str(options.users),
            "server_id": view.server_id,
            "files": len(view.there),
            "file": file,
            "position": position,
            "streams": [{"stream": n, "port": p, "user": user or None} for n, (p, user) in streams.items()],
        }
        print_document(values, output)
        return
    to = f"user {printable(options.user)}" if options.users is None else f"the users of {options.users}"
    print(
        f"{log.folder} is served on {address[0]}:{address[1]} to {to}, "
        f"{counted(len(view.there), 'file')} up to {file}:{position}, server id {view.server_id}",
        flush=True,
    )
    for name, (port, user) in streams.items():
        at = [f"port {port}"] if port is not None else []
        at += [f"user {printable(user)}"] if user else []
        print(f"stream {name}: {', '.join(at)}", flush=True)


def _offered(log: "PublishedLog", writer: "StreamWriter", keeper: "StreamKeeper") -> "Offered":
    from binlog_merge.binlog_server.offered import Offered, StreamLog
    from binlog_merge.binlog_server.readers import Reader

    spec, since = writer.spec, time.time()

    def source() -> Reader:
        place = writer.reading()
        return Reader(f"stream {spec.name}", 0, "", "", since, *place, waiting=place == log.view().end)

    made = StreamLog(writer.folder, log, lambda: keeper.stopped(spec))
    return Offered(spec.name, made, spec.port, spec.user, source, spec.unmatched)


def _report(line: str) -> None:
    """Print a line for the operator; with --quiet only what may need one."""
    level = logging.INFO if isinstance(line, Routine) else logging.WARNING
    say(f"binlog-merge: {line}", line, level)
