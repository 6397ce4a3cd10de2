"""What a log says is read by one module: statements (their text, session, meaning), and places in the log."""

import ast
from collections.abc import Callable
from typing import Final

import pytest

from tests.source_code import nodes_of_modules

pytestmark = pytest.mark.usefixtures("source_code")

DECODE: Final = {"binlog/query.py"}
"""The module that decodes the text of a QUERY event. That of a rows-query event is another: `binlog/control.py`."""

SESSIONS: Final = {
    "binlog/query_session.py": "of a QUERY event",
    "log/statement.py": "of rows that no statement altered",
    "filters/ddl.py": "of a statement that somebody asks about",
    "cli/schema/imports.py": "of a dump",
    "mariadb_nodes/dumps.py": "of a dump",
    # What is written by no session, or by ours
    "pipeline/coordinate/shards/log_json.py": "as it was kept",
    "pipeline/coordinate/shards/values.py": "of text that no node ran: an operator's, and definitions written anew",
    "polardbx/ddl/convert.py": "of a marker without one",
    "polardbx/ddl/text.py": "which words are reserved",
    "values/duckdb/piece.py": "of what is asked of rows",
    # What a client of `serve` asks
    "binlog_server/show_sql.py": "of a client",
    "binlog_server/tables/session.py": "of a client",
}
"""The modules that make a session of a statement, and of which."""

OF_EVENTS: Final = {
    "log/statement.py",
    "cli/schema/import_nodes.py",
    "mariadb_nodes/query.py",
    "pipeline/coordinate/row_counts.py",
    "pipeline/coordinate/read_again.py",
    "pipeline/scan/statements.py",
    "pipeline/scan/walk.py",
}
"""The modules that ask for the session of a QUERY event: of a merged log it is one."""

READERS: Final = (
    "ask", "bootstrap", "log", "messages", "observe", "streams", "tables", "targets", "time_travel", "verification",
)  # fmt: skip
"""The rooms that read a merged log."""

PARSE: Final = {
    "log/statement.py": "every statement",
    "streams/chosen.py": "where IF NOT EXISTS goes into a CREATE DATABASE",
    "streams/mariadb/ddl.py": "a statement's tokens, which it changes for MariaDB",
}
"""The modules of those rooms that cut or parse a statement, and what for."""

ASKING: Final = (*READERS, "api.py", "cli", "spark")
"""The rooms in which users name places in a log."""

GTIDS: Final = {
    "log/place.py": "of a user who names a place",
    "verification/against.py": "of a server, which says what it has",
    "verification/base_dump.py": "of a dump, which says what its server had",
}
"""The modules of those rooms that parse the text of GTIDs, and whose it is."""

RESOLVES: Final = {"log/log.py"}
"""The module that finds the transactions at a place."""

MOMENTS: Final = {
    *RESOLVES,
    "log/question.py",  # a table's definition at a TSO
}
"""The modules of those rooms that read what a place says, and what for."""


CTS: Final = {
    "log/reader.py": "reads it",
    "log/transactions.py": "finds it at a transaction's end",
    "binlog/kernels/transaction_events.py": "writes it",
    "binlog/kernels/log_index.py": "reads it, many at once",
    "pipeline/gather/renderer.py": "writes that of a DDL",
    "reshape/writesets.py": "passes over it",
}
"""The modules that know a CTS text, and what for."""

WALKS: Final = {
    "log/reader.py": "from event to event, and says what is damaged",
    "log/log.py": "the first event of a log",
    "log/index.py": "the first event of a file",
    "log/transactions.py": "what stands at the beginning and the end of one transaction",
    "log/who.py": "up to one event, for what stands before it",
    "streams/together.py": "every event, to write it again",
    "verification/whole.py": "every event, to judge it",
    "binlog_server/variables.py": "the first event of a file",
    "cli/schema/import_nodes.py": "a node's files, not a log's",
}
"""The modules that go through events one by one in Python, and how far. All others have segments or the index."""

ROWS: Final = {
    "log/read.py": "of all that are asked for",
    "messages/read.py": "with what messages have beside",
}
"""The modules that make a view of a table's rows, and of which."""


def modules() -> dict[str, list[ast.AST]]:
    """Return the nodes of the modules of `binlog_merge`, by their paths in it."""
    inside = ((name.partition("/"), nodes) for name, nodes in nodes_of_modules().items())
    return {name: nodes for (package, _, name), nodes in inside if package == "binlog_merge"}


def finding(found: Callable[[ast.AST], bool], rooms: tuple[str, ...] = ()) -> set[str]:
    """Return the modules that have such a node."""
    return {
        name
        for name, nodes in modules().items()
        if not rooms or name.partition("/")[0] in rooms
        if any(map(found, nodes))
    }


def calling(found: Callable[[ast.Call], bool], rooms: tuple[str, ...] = ()) -> set[str]:
    """Return the modules that have such a call."""
    return finding(lambda node: isinstance(node, ast.Call) and found(node), rooms)


def importing(module: str, *names: str, rooms: tuple[str, ...] = ()) -> set[str]:
    """Return the modules that import one of these names of a module, or the module itself."""
    package, _, last = f"binlog_merge.{module}".rpartition(".")
    wanted = {(f"{package}.{last}", name) for name in names} | {(package, last)}
    return {
        name
        for name, nodes in modules().items()
        if not rooms or name.partition("/")[0] in rooms
        for node in nodes
        if isinstance(node, ast.ImportFrom) and not wanted.isdisjoint((node.module, each.name) for each in node.names)
    }


def called(node: ast.Call) -> str:
    """Return the dotted name of what is called, without what stands before its last two parts."""
    function = node.func
    if isinstance(function, ast.Attribute):
        of = function.value
        before = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
        return f"{before}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def decodes(node: ast.Call) -> bool:
    """Return whether a call decodes the bytes of a `query`."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "decode":
        return False
    return any(isinstance(inner, ast.Attribute) and inner.attr == "query" for inner in ast.walk(node.func.value))


def test_one_moduledecodes_the_text_of_a_statement() -> None:
    assert calling(decodes) - {"binlog/control.py"} == DECODE


def test_sessions_are_made_by_those_alone_that_have_a_reason() -> None:
    assert calling(lambda node: called(node).rpartition(".")[2] == "DdlSession") == set(SESSIONS)


def test_a_logged_statement_gets_its_session_from_its_event() -> None:
    assert importing("binlog.query_session", "session_of", "query_session") == OF_EVENTS


def test_readers_parse_nothing() -> None:
    reading = ("ParsedDdl.of", "parse_statement", "Cursor.of", "apply_ddl")
    assert calling(lambda node: called(node) in reading, READERS) == set(PARSE)
    assert importing("filters.ddl", "events_of", "ddl_events", rooms=READERS) == {"log/statement.py"}


def test_one_module_parses_the_gtids_of_places() -> None:
    assert calling(lambda node: called(node) == "GtidSet.parse_text", ASKING) == set(GTIDS)
    assert finding(lambda node: isinstance(node, ast.Constant) and "[0-9a-fA-F]{8}" in str(node.value), ASKING) == {
        "log/place.py"
    }


def test_one_module_resolves_places() -> None:
    assert importing("log.index", "transactions_from") == RESOLVES
    assert calling(lambda node: called(node).endswith(".last_before")) == RESOLVES
    says = finding(lambda node: isinstance(node, ast.Attribute) and node.attr in ("moment", "micros"), ASKING)
    assert {name for name in says if not name.startswith("cli/schema/")} == MOMENTS


def test_events_are_walked_by_those_alone_that_need_few_or_judge_them() -> None:
    assert importing("log.reader", "events_of", "events_in") | {"log/reader.py"} == set(WALKS)


def test_one_module_says_which_values_of_keys_are_equal() -> None:
    assert finding(lambda node: isinstance(node, ast.Constant) and node.value == "NFKD") == {"values/key_values.py"}
    users = {"streams/hashing.py", "targets/server/keys.py", "pipeline/gather/key_changes.py"}
    assert importing("values.key_values", "folded", "as_hashed") == users


def test_there_is_one_log() -> None:
    """Whoever has a merged log open has a `Log`, as an unmerged cluster is one; two look at its manifest alone."""
    opens = calling(lambda node: called(node).endswith("folder_of"))
    assert opens == {"log/log.py", "binlog_server/log.py", "observe/status/observer.py"}


def test_one_module_and_its_kernel_read_cts_texts() -> None:
    texts = finding(lambda node: isinstance(node, ast.Constant) and _begins_cts(node.value))
    assert texts == set(CTS)


def _begins_cts(value: object) -> bool:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and text.removeprefix("(?:# )?").removeprefix("# ").startswith("CTS::")


def test_one_module_makes_rows_of_a_log() -> None:
    assert calling(lambda node: called(node) in ("TableChanges", "TableRows")) == set(ROWS)
    assert calling(lambda node: called(node) == "gtid_prefix") == {"log/read.py"}
    assert importing("log.where", "Undecided") == {"log/read.py"}


def test_a_place_is_what_a_user_says() -> None:
    """One class has the name; what else stands somewhere is called what it is."""
    assert finding(lambda node: isinstance(node, ast.ClassDef) and node.name == "Place") == {"log/place.py"}
    assert not finding(lambda node: isinstance(node, ast.Assign) and any(_is_place(each) for each in node.targets))


def _is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "Place"
