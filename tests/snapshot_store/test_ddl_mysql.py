"""The same statements into a real MySQL and into `apply_ddl`: both end with the same tables, and refuse the same."""

import contextlib

import pymysql
import pytest

from snapshot_store.ddl import apply_ddl, parse_dump
from snapshot_store.diff import equivalent
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Schema
from snapshot_store.render_sql import create_sql
from tests.mysql_server import MySqlServer
from tests.snapshot_store.ddl_statements import LISTS
from tests.snapshot_store.mysql_compare import our_shape, server_shape


@pytest.mark.mysql
@pytest.mark.parametrize("name", LISTS)
def test_server_and_catalog_agree_after_every_statement(mysql_server: MySqlServer, name: str) -> None:
    mysql_server.execute("CREATE DATABASE d")
    catalog = Catalog({"d": Schema("d")})
    faults = []
    for sql in LISTS[name]:
        refused = understood = ""
        try:
            mysql_server.execute(sql, "d")
        except pymysql.Error as error:
            refused = str(error)
        try:
            after = apply_ddl(catalog, sql, "d").catalog
        except SnapshotStoreError as error:
            understood = str(error)
            after = catalog
        if bool(refused) != bool(understood):
            faults.append(f"{sql}\n  server: {refused or 'takes it'}\n  we: {understood or 'take it'}")
        catalog = after
        ours, theirs = our_shape(catalog, "d"), server_shape(mysql_server, "d")
        for what in theirs:
            wrong = [f"  - {row}" for row in theirs[what] if row not in ours[what]]
            wrong += [f"  + {row}" for row in ours[what] if row not in theirs[what]]
            if wrong:
                faults.append("\n".join([f"{sql}\n {what}, - as the server has it, + as we have it:", *wrong]))
        if faults:
            break
    assert not faults, "\n".join(faults)


@pytest.mark.mysql
@pytest.mark.parametrize("name", LISTS)
def test_what_the_server_shows_and_what_we_write_make_the_same_table(mysql_server: MySqlServer, name: str) -> None:
    mysql_server.execute("CREATE DATABASE d; CREATE DATABASE again")
    ours = Catalog({"d": Schema("d")})
    for sql in LISTS[name]:
        with contextlib.suppress(pymysql.Error):
            mysql_server.execute(sql, "d")
        with contextlib.suppress(SnapshotStoreError):
            ours = apply_ddl(ours, sql, "d").catalog
    shown = parse_dump(mysql_server.dump_schema("d"))
    assert our_shape(shown, "d") == server_shape(mysql_server, "d")
    for key, table in ours.tables.items():
        assert set(shown.tables[key].foreign_keys) == set(table.foreign_keys)
        # The server rewrites the functions of an expression; what it writes of all else must mean the same to us.
        assert equivalent(shown.tables[key], table) or key[1] in ("attributes", "k4")
    written = ";\n".join(create_sql(table) for table in shown.tables.values())
    mysql_server.execute(f"SET foreign_key_checks = 0; {written}", "again")
    # A generated name holds the table's name, and a table's character set is not that of its schema.
    assert server_shape(mysql_server, "again") == server_shape(mysql_server, "d")
