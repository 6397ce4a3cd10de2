"""`binlog-merge schema import | set`: records tables from dumps and servers, and an operator's corrections."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli.input import text_of
from binlog_merge.cli.options import LocalMerged, Output, local_path, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.schema import ask as schema_ask
from binlog_merge.cli.schema.store import (
    AtTso,
    Config,
    Format,
    Node,
    SchemaFormat,
    Store,
    free_place,
    names_of,
    opened,
    place,
    store_of,
    store_path,
    topology_in,
)
from binlog_merge.errors import WAYS_OUT_OF_COLLISIONS, ConfigError, KeysInDoubt
from binlog_merge.store_errors import as_merge_errors

if TYPE_CHECKING:
    from binlog_merge.bootstrap.overlap import Overlap
    from snapshot_store.history import TableVersion
    from snapshot_store.model import Catalog, Schema, Table
    from snapshot_store.tso import OrderKey

_IMPORT = """Take tables into a store, as a base: from a dump, from a server, or from what `export` wrote.

Without --node they are logical tables. Without --at-tso they hold from the beginning of the binlogs; with it, from that
moment on. A server is read in one consistent pass: where the user has BACKUP_ADMIN no DDL can come between; elsewhere
the pass is repeated until two agree. What the server lacks and the store had at that moment is recorded as dropped (a
dump may be of a part, so it says nothing about others). The password: --password-file, or MYSQL_PWD.

With --nodes it is all nodes of --config, as their captured logs begin, and the logical tables that their routes make:
`base: {store: base.duckdb}` is then all that a merge needs. Refused where the captured logs have DDL on them already.
Refused, too, where shards of a logical table have rows with the same keys (59): stdout then has the sections `routes`
and `copies` with which the same command goes through, ready for the configuration.

\b
  binlog-merge schema import --store base.duckdb --config cluster.yaml --nodes
  binlog-merge schema import --store schema.duckdb --sql base.sql
  binlog-merge schema import --store schema.duckdb --server mysql://root@10.0.0.7:3306 --node dn-1 --at-tso 75078…"""


def import_(
    sql: Annotated[
        Path | None,
        option("--sql", "mysqldump --no-data, or SHOW CREATE TABLE text.", "DUMP", local_path),
    ] = None,
    server: Annotated[
        str | None,
        option("--server", "mysql://user@host:port, or mysql://user@localhost/?socket=PATH.", "URL"),
    ] = None,
    parquet: Annotated[
        Path | None,
        option("--parquet", "What `schema export` wrote; the store must be new.", "DIR", local_path),
    ] = None,
    nodes: Annotated[
        bool,
        option("--nodes", "All nodes of --config, as their captured logs begin, into a new store."),
    ] = False,
    merged: LocalMerged = None,
    store: Store = None,
    node: Annotated[str | None, option("--node", "The tables are this node's, physical.")] = None,
    at_tso: AtTso = None,
    schema: Annotated[
        list[str] | None,
        option("--schema", "Only this schema of the server, or where tables of --sql are that name none."),
    ] = None,
    password_file: Annotated[
        Path | None,
        option("--password-file", "Holds the server's password.", "PATH", local_path),
    ] = None,
    config: Config = None,
    output: Output = OutputFormat.text,
) -> None:
    """Take tables into a store."""
    given = Path(store_of(merged, store))
    if [sql, server, parquet].count(None) + (not nodes) != 3:
        raise ConfigError("give one of --sql, --server, --parquet and --nodes")
    if nodes:
        if config is None:
            raise ConfigError("--nodes is all nodes of --config", remedy="give --config")
        if node is not None or at_tso is not None or schema:
            raise ConfigError("--nodes is all nodes of --config", remedy="leave --node, --at-tso and --schema out")
        _import_nodes(config, password_file, given, output)
        return
    if parquet is not None:
        with opened(given, read_only=False) as to:
            number = to.import_parquet(parquet)
        _print_imported([], number, str(parquet), given, "with everything it had", output)
        return
    with as_merge_errors(sql):
        if sql is not None:
            catalog, source, position = _dump(sql, schema or []), str(sql), 0
        else:
            catalog, source, position = _server(server or "", password_file, schema or [])
    with opened(given, read_only=False) as to:
        if config is not None:
            to.set_topology(topology_in(to, config))
        key, stop = place(to, at_tso, node)
        always = frozenset() if stop is None else frozenset(stop.tables)
        tables, schemas = _base(to, catalog, key, node, (source, position), server is not None, always)
        number = to.append_versions(tables, schemas)
    where = "the logical base" if node is None else f"the base of node {node}"
    _print_imported(tables, number, source, given, f"as {where}", output)


_REMEDY = (
    "put the sections that stdout has into the configuration, in place of its own of the same names, and run the same "
    "command again; with `key-doubts: warn` it imports what there is"
)
_NO_PROPOSAL = f"{WAYS_OUT_OF_COLLISIONS}; with `key-doubts: warn` it imports what there is"


@dataclass(frozen=True)
class _Proposed:
    proposal: str

    def to_dict(self) -> dict[str, Any]:
        return {"proposal": self.proposal}


def _import_nodes(config: Path, password_file: Path | None, store: Path, output: OutputFormat) -> None:
    from binlog_merge.bootstrap.plan import RoutedTables
    from binlog_merge.bootstrap.proposal import mode_of
    from binlog_merge.bootstrap.published import captured_nodes
    from binlog_merge.cli.schema.import_nodes import base_of, logical_of, overlaps_of, proposed
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.config.yaml import load_yaml
    from snapshot_store.tso import ORIGIN

    document, folder = load_yaml(config.absolute(), name=str(config)), config.absolute().parent
    cluster = MergeConfig.from_document(document, folder, str(config))
    places = RoutedTables.of(cluster)
    password = None if password_file is None else text_of(password_file).rstrip("\n")
    if store_path(store).exists():
        raise ConfigError("the store exists", file=str(store_path(store)), remedy="give --store a new file's name")
    with as_merge_errors(None):
        captured = captured_nodes(cluster, password, None)
        bases = {one.name: base_of(one, places) for one in captured}
        logical = logical_of(bases, places)
        overlaps = overlaps_of(captured, bases, logical, places)
        proposal = proposed(document, folder, overlaps, bases, logical) if overlaps else None

    def by_markers(one: "Overlap") -> bool:
        return mode_of(cluster, places.topology, one.shards[0]) == "marker"

    if cluster.key_doubts == "error":
        _refuse_colliding([one for one in overlaps if not by_markers(one)], proposal, output)
    warnings = [one.text for one in overlaps]
    found: list[TableVersion] = []
    number = 0
    with opened(store, read_only=False) as to:
        to.set_topology(places.topology)
        parts = [(None, logical, ("", 0)), *((n, b.catalog, (b.file, b.position)) for n, b in sorted(bases.items()))]
        for name, catalog, source in parts:
            tables, schemas = _base(to, catalog, ORIGIN, name, source, True, frozenset())
            number += to.append_versions(tables, schemas)
            found += tables if name is None else ()
    what = f"as the base of {len(bases)} nodes and of the logical tables that they make"
    _print_imported(found, number, str(config), store, what, output, warnings, proposal)


def _refuse_colliding(overlaps: "Sequence[Overlap]", proposal: str | None, output: OutputFormat) -> None:
    """Raise KeysInDoubt if rows of shards collide already; with what is proposed, which is printed as text."""
    from binlog_merge.bootstrap.overlap import Kind

    colliding = [one.text for one in overlaps if one.kind is not Kind.counters]
    if not colliding:
        return
    for text in (one.text for one in overlaps if one.text not in colliding[:1]):
        print(printable(f"binlog-merge: {text}"), file=sys.stderr)
    error = KeysInDoubt(colliding[0], remedy=_REMEDY if proposal is not None else _NO_PROPOSAL)
    if proposal is not None and output is OutputFormat.text:
        print(printable(proposal), end="", flush=True)
    elif proposal is not None:
        error.result = _Proposed(proposal)
    raise error


def _dump(path: Path, schemas: list[str]) -> "Catalog":
    from snapshot_store.ddl import parse_dump

    if len(schemas) > 1:
        raise ConfigError("with --sql, --schema is the one database of tables that name none", remedy="give it once")
    catalog = parse_dump(text_of(path), schemas[0] if schemas else None)
    if not catalog.tables and not catalog.schemas:
        remedy = "give what `mysqldump --no-data` prints"
        raise ConfigError("it makes no table and no database", file=str(path), remedy=remedy)
    return catalog


def _server(url: str, password_file: Path | None, schemas: list[str]) -> "tuple[Catalog, str, int]":
    from snapshot_store.introspect import introspect
    from snapshot_store.server import ServerAddress

    password = None if password_file is None else text_of(password_file).rstrip("\n")
    try:
        address = ServerAddress.parse(url, password)
    except ValueError as error:
        raise ConfigError(f"--server: {error}") from None
    snapshot = introspect(address, schemas)
    return snapshot.catalog, snapshot.file or str(address), snapshot.position


def _base(
    store: Any,
    catalog: "Catalog",
    key: "OrderKey",
    node: str | None,
    source: tuple[str, int],
    complete: bool,
    always: frozenset[tuple[str, str]],
) -> Any:
    """Return versions for the catalog's tables and databases that differ from the store; `always` for these tables."""
    from snapshot_store.history import versions_of
    from snapshot_store.tso import ORIGIN

    tables, schemas = set(catalog.tables), set(catalog.schemas)
    if key != ORIGIN:
        there = store.history_at(key)
        known = {(v.schema, v.name): v.table for v in there.versions if v.node == node}
        databases = {v.name: v.value for v in there.schema_versions if v.node == node}
        # In a complete snapshot, the schemas' other tables do not exist.
        gone = {name for name in known if complete and name[0] in catalog.schemas and name not in tables}
        tables = {name for name in tables if name in always or known.get(name) != catalog.tables[name]} | gone
        schemas = {name for name in schemas if databases.get(name) != catalog.schemas[name]}
    return versions_of(catalog, tables, schemas, key, node=node, file=source[0], position=source[1], origin="base")


def _print_imported(
    tables: "list[TableVersion]",
    new: int,
    source: str,
    store: Path,
    what: str,
    output: OutputFormat,
    warnings: Sequence[str] = (),
    proposal: str | None = None,
) -> None:
    path = str(store_path(store))
    if output is not OutputFormat.text:
        from binlog_merge.cli.schema.text import version_values

        shown = [version_values(v) for v in tables]
        document = {"store": path, "new": new, "tables": shown, "warnings": list(warnings), "proposal": proposal}
        print_document(document, output, "tables")
    else:
        names = ", ".join(f"{v.schema}.{v.name}" + ("" if v.table else " (gone)") for v in tables[:10])
        more = f" and {len(tables) - 10} more" if len(tables) > 10 else ""
        print(printable(f"{source} imported into {path} {what}: {new} new versions"))
        if names:
            print(printable(f"  {names}{more}"))
        for text in warnings:
            print(printable(f"binlog-merge: {text}"), file=sys.stderr)
        if proposal is not None:
            print(printable(f"to tell them apart, put this into {source}, remove {path}, and import again:"))
            print(printable(proposal), end="")


_SET = """Correct a table: from a moment on it is what FILE makes of it, whatever the binlogs said.

FILE holds one statement on the table, CREATE TABLE (its whole definition), ALTER TABLE or DROP TABLE; or a dump
that has the table among others. The version is recorded with origin "operator", and DDL that comes later goes on from
it. Given the TSO or the order key at which a merge stopped, it stands for the statement that was not understood, or
right before the rows that did not fit: merge again, and it goes on. What is published cannot be corrected any more.

\b
  binlog-merge schema set shop_000000.orders_0 --node dn-1 --sql orders_0.sql --at-tso 7507804165234491392"""


def set_(
    table: Annotated[str, typer.Argument(help="The table, schema.table.", metavar="TABLE")],
    sql: Annotated[Path, option("--sql", "The statement; - reads standard input.", "FILE", local_path)],
    at_tso: Annotated[str, option("--at-tso", "From this commit TSO or order key on.")],
    merged: LocalMerged = None,
    store: Store = None,
    node: Node = None,
    output: Format = SchemaFormat.text,
) -> None:
    """Correct a table from a moment on."""
    from dataclasses import replace

    from snapshot_store.history import TableVersion
    from snapshot_store.model import Schema

    (name,) = names_of([table])
    if any(name.wild):
        raise ConfigError(f"{table} does not name one table", remedy="write schema.table")
    text = text_of(sql)
    with opened(Path(store_of(merged, store)), read_only=False) as to:
        key, _ = place(to, at_tso, node)
        key = free_place(to, key, node, name.schema, name.table)
        history = to.history_of([(node, name.schema, name.table)])
        before = history.at(name.schema, name.table, key, node)
        known = history.schema_at(name.schema, key, node)
        database = known.value if known is not None and known.value is not None else Schema(name.schema)
        made, ddl = _made(text, str(sql), name.schema, name.table, database, before)
        version = TableVersion(key, 0, name.schema, name.table, made, ddl, node, str(sql), 0, origin="operator")
        to.append_versions([version])
        stored = to.history_of([(node, name.schema, name.table)]).at(
            name.schema, name.table, key._replace(node_seq=key.node_seq + 1), node
        )
        version = replace(version, version_id=stored.version_id if stored is not None else 0)
    schema_ask.print_shown([version], output)


def _made(
    text: str, file: str, schema: str, table: str, database: "Schema", before: "TableVersion | None"
) -> "tuple[Table | None, str]":
    """Return what a statement, or a dump, makes of a table, and the statement to record."""
    from snapshot_store.ddl import DdlSession, apply_ddl, parse_dump, split_statements
    from snapshot_store.model import Catalog
    from snapshot_store.render_sql import create_sql

    statements = list(split_statements(text, DdlSession()))
    if len(statements) != 1:
        dumped = parse_dump(text, schema).get(schema, table)
        if dumped is None:
            raise ConfigError(f"it does not make {schema}.{table}", file=file)
        return dumped, create_sql(dumped)
    catalog = Catalog({schema: database})
    if before is not None and before.table is not None and statements[0].split()[0].upper() != "CREATE":
        catalog = catalog.with_table(before.table)
    effect = apply_ddl(catalog, statements[0], schema)
    if effect.tables[:1] != ((schema, table),):
        said = ", ".join(".".join(name) for name in effect.tables) or "no table"
        raise ConfigError(f"the statement is about {said}, not {schema}.{table}", file=file)
    return effect.catalog.get(schema, table), text.strip().rstrip(";")


VERBS: tuple[tuple[str, Callable[..., None], str], ...] = (("import", import_, _IMPORT), ("set", set_, _SET))
