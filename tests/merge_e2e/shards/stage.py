"""Shards on real MySQL servers: scenarios are played on the nodes, their binlogs merged, the result put on a target.

The servers are shared. Each scenario has databases of its own and a binlog file of its own on every node, so that it
can be merged alone or together with others. What must come out is read from the shards' real tables.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import yaml

from binlog_merge.pipeline.values import MergeResult
from snapshot_store.mysql.sql.names import quote_name
from tests.merge_e2e.local import merge, written
from tests.mysql_server import MySqlServer, mysqlbinlog

Name = tuple[str, str]
Rows = list[tuple[str | None, ...]]

SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")


@dataclass(frozen=True)
class Route:
    """Which tables make a logical one, in the words of the configuration."""

    schema_pattern: str
    table_pattern: str
    target: Name
    extract: Mapping[str, Any] = field(default_factory=dict)
    source: str = "*"

    def section(self) -> dict[str, Any]:
        """Return the route as cluster.yaml has it."""
        schema, table = self.target
        section = {"schema-pattern": self.schema_pattern, "table-pattern": self.table_pattern}
        section |= {} if self.source == "*" else {"source-pattern": self.source}
        return {**section, "target-schema": schema, "target-table": table, **deepcopy(dict(self.extract))}

    def takes(self, schema: str, table: str, node: str = "") -> bool:
        """Tell whether a table, of a node or of any, is one of the shards."""
        pairs = ((self.source, node or self.source), (self.schema_pattern, schema), (self.table_pattern, table))
        return all(re.fullmatch(p.replace("*", ".*").replace("?", "."), name) for p, name in pairs)


@dataclass(frozen=True)
class Played:
    """A scenario as it was played: which of the nodes' binlog files are its own."""

    name: str
    files: Mapping[str, Path]
    routes: tuple[Route, ...]


class Stage:
    """The nodes, by name, and the target."""

    def __init__(self, nodes: Mapping[str, MySqlServer], target: MySqlServer, folder: Path) -> None:
        self.nodes = nodes
        self.target = target
        self.folder = folder

    @contextmanager
    def scene(self, name: str, routes: Sequence[Route]) -> Iterator[tuple[Mapping[str, "Session"], list[Played]]]:
        """Give sessions on the nodes; what is done with them stands in binlog files of its own."""
        for node in self.nodes.values():
            node.execute("FLUSH BINARY LOGS")
        files = {node: server.binlog_files()[-1] for node, server in self.nodes.items()}
        sessions = {node: Session(server) for node, server in self.nodes.items()}
        played: list[Played] = []
        try:
            yield sessions, played
        finally:
            for session in sessions.values():
                session.close()
        played.append(Played(name, files, tuple(routes)))

    def configuration(
        self,
        name: str,
        played: Sequence[Played],
        mode: str,
        routed: Sequence[Played] | None = None,
        sections: Mapping[str, Any] | None = None,
    ) -> Path:
        """Copy the binlogs of scenarios to a folder, beside a configuration that merges them; returns its path.

        `routed` are those whose routes it has, if there are more; `sections` come beside what is usual.
        """
        folder = self.folder / name
        for node in self.nodes:
            (folder / node).mkdir(parents=True, exist_ok=True)
            for one in played:
                shutil.copyfile(one.files[node], folder / node / one.files[node].name)
        document: dict[str, Any] = {"version": 1, "name": "shards"}
        document["nodes"] = [{"source-id": node, "files": [f"{node}/binlog.*"]} for node in self.nodes]
        document["routes"] = [route.section() for one in routed or played for route in one.routes]
        document["commit-tso"] = {"carrier": "gtid-time"}
        document["shard-mode"] = mode
        document["shard-doubts"] = "warn"  # as DM does, which asks nobody
        path = folder / "cluster.yaml"
        path.write_text(yaml.safe_dump({**document, **(sections or {})}, sort_keys=False))
        return path

    def perform(self, name: str, played: Sequence[Played], mode: str) -> tuple[MergeResult, Path]:
        """Merge what was played and carry it out on the target, which must take every statement; returns its output."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        path = self.configuration(name, played, mode)
        out = path.parent / "out"
        result = merge(path, out)
        self.carry_out(out)
        return result, out

    def carry_out(self, out: Path) -> None:
        """Apply a merged binlog to the target, as a user does. Raises RuntimeError at the first error."""
        files = [out / name for name in written(out)]
        self.target.execute("RESET BINARY LOGS AND GTIDS")  # every output counts from 1
        if files:
            self.target.apply(mysqlbinlog(files))

    def clear(self) -> None:
        """Drop what the nodes have, without a word of it in their binlogs; and what the target has."""
        self.target.drop_databases()
        for node in self.nodes.values():
            session = Session(node)
            session.run("SET sql_log_bin = 0")
            for name in databases(node):
                session.run(f"DROP DATABASE {quote_name(name)}")
            session.close()

    def shards(self, route: Route) -> list[tuple[str, Name]]:
        """Return the shards that there are, each as (node, table)."""
        found = [(node, name) for node, server in self.nodes.items() for name in tables(server)]
        return [(node, name) for node, name in found if route.takes(*name, node)]


class Session:
    """A session on a node, as an application keeps one open."""

    def __init__(self, server: MySqlServer) -> None:
        self.server = server
        self._connection = server.connect()

    def run(self, sql: str) -> None:
        """Run a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            while cursor.nextset():
                pass

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a question."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def close(self) -> None:
        self._connection.close()


def databases(server: MySqlServer) -> list[str]:
    return [str(name) for (name,) in server.query("SHOW DATABASES") if name not in SYSTEM]


def tables(server: MySqlServer) -> list[Name]:
    """Return the tables of a server, but for its own."""
    listed = ", ".join(f"'{name}'" for name in SYSTEM)
    asked = f"SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN ({listed})"
    return sorted((str(schema), str(table)) for schema, table in server.query(asked))


def create_of(server: MySqlServer, name: Name) -> str:
    """Return a table's SHOW CREATE TABLE without its counter and the names that follow from those of shards (t11)."""
    ((_, text),) = server.query(f"SHOW CREATE TABLE {quoted(name)}")
    text = re.sub(r"^CREATE TABLE `(?:[^`]|``)*`", "CREATE TABLE", str(text))
    text = re.sub(r"`([a-z])\d\d((?:_(?:chk|ibfk)_\d+)?)`", r"`\1\2`", text)
    return re.sub(r" AUTO_INCREMENT=\d+", "", text)


def columns_of(server: MySqlServer, name: Name) -> dict[str, str]:
    """Return the columns of a table, in order, each with its type's name."""
    schema, table = name
    asked = (
        "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' AND table_name = '{table}' ORDER BY ordinal_position"
    )
    return {str(column): str(kind) for column, kind in server.query(asked)}


def rows_of(server: MySqlServer, name: Name, columns: Sequence[str]) -> Rows:
    """Return the rows of a table as texts, of a JSON document what it says and of bytes their hexadecimal digits."""
    kinds = {column.lower(): kind for column, kind in columns_of(server, name).items()}
    asked = ", ".join(_as_text(column, kinds[column.lower()]) for column in columns)
    return [
        tuple(None if v is None else v.decode() if isinstance(v, bytes) else str(v) for v in row)
        for row in server.query(f"SELECT {asked} FROM {quoted(name)}")
    ]


def _as_text(column: str, kind: str) -> str:
    name = quote_name(column)
    hexed = "binary" in kind or "blob" in kind or kind in ("bit", "point", "geometry", "vector")
    return f"HEX({name})" if hexed else f"CAST({name} AS CHAR CHARACTER SET utf8mb4)"


def quoted(name: Name) -> str:
    return ".".join(quote_name(part) for part in name)


def refuses(session: Session, sql: str) -> bool:
    """Run a statement that a server may refuse; tells whether it did."""
    try:
        session.run(sql)
    except pymysql.err.MySQLError:
        return True
    return False
