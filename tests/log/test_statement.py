"""A statement is read once: every reader says the same of it, however its session has it written."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Final

import pytest

from binlog_merge.binlog import query as query_event
from binlog_merge.binlog import query_session
from binlog_merge.binlog.query import Query
from binlog_merge.log.statement import Statement
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.ddl.parse.statement import with_folded_names
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.names import folded
from snapshot_store.mysql.sql.session import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, SQL_MODES
from tests.effort import effort
from tests.log.ddl_texts import PLAIN, ddl_texts, written
from tests.log.statement_readers import Said, apart, in_lower_case, said_of

CLIENTS: Final = {255: "表", 8: "é", 28: "誠", 13: "表", 1: "功"}
"""Collations of clients, and a letter of each; the last byte of three of them is a backslash in their character set."""
QUOTING: Final = (0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, ANSI_QUOTES | NO_BACKSLASH_ESCAPES)
MODES: Final = tuple(sorted({*SQL_MODES.values()}))


def statement(sql: str, mode: int = 0, client: int = 255) -> Statement:
    """Return a statement as a server logs it: sql_mode, and the character sets of client, connection and server."""
    status = struct.pack("<BQBHHH", 1, mode, 4, client, client, 255)
    return Statement(Query.parse(Query(1, 0, 0, b"Shop", b"", status).pack()).with_text(sql))


def sessions(number: int) -> Iterator[tuple[int, int, bool]]:
    """Yield sql_mode, client and whether names are in lower case: another way of quoting for each statement in turn."""
    modes = (mode | QUOTING[1 + (number + turn) % 3] for turn, mode in enumerate(MODES))
    others = [*product(modes, CLIENTS, (False, True))]
    for turn in range(effort(1, 40)):
        yield others[(number * 37 + turn * 53) % len(others)]


def encodable(text: str, client: int) -> bool:
    """Return whether a client of a character set can send a text."""
    with suppress(UnicodeEncodeError):
        return bool(statement(text, 0, client))
    return False


def is_about_case(made: Statement) -> bool:
    """Return whether a statement has names that differ by case alone, as in a rename to lower case."""
    return len({folded(".".join(name)) for name in made.tables or ()}) < len(made.tables or ())


def differing(texts: tuple[str, ...]) -> list[str]:
    """Return where readers differ, from the same statement in a plain session or from each other."""
    found, plain = list[str](), dict[str, Said]()
    for number, text in enumerate(texts):
        for mode, client, lower in sessions(number):
            usual, sql = text, text
            with suppress(DdlNotUnderstood):
                usual = written(text, PLAIN, PLAIN, CLIENTS[client])
                sql = written(text, PLAIN, DdlSession(sql_mode=mode), CLIENTS[client])
            if not encodable(sql, client):
                client = 255
            if usual not in plain:
                plain[usual] = said_of(statement(usual))
                found += [f"{what}: {usual}" for what in apart(plain[usual])]
            wanted, made = plain[usual], statement(sql, mode, client)
            if lower and not is_about_case(made):
                folds = with_folded_names(ParsedDdl.of(sql, made.session)).sql
                made, wanted = statement(folds, mode, client), in_lower_case(wanted)
                said = in_lower_case(said_of(made))
            else:
                said = said_of(made)
            found += [f"{what} {mode:#x} {client} {lower}: {sql}" for what in said if said[what] != wanted[what]]
    return found


@pytest.mark.heavy
def test_every_reader_says_the_same_in_every_session() -> None:
    texts = ddl_texts()
    assert len(texts) > 500
    assert differing(texts[:: effort(3, 1)]) == []


def test_names_in_lower_case_are_those_of_the_text() -> None:
    sql = 'CREATE TABLE "Orders" LIKE "Shop"."Old"'
    folds = with_folded_names(ParsedDdl.of(sql, DdlSession(sql_mode=ANSI_QUOTES))).sql
    assert statement(folds, ANSI_QUOTES).tables == (("Shop", "orders"), ("shop", "old"))
    assert folded("Orders") == "orders"


@pytest.mark.parametrize("session", [DdlSession(), DdlSession(sql_mode=NO_BACKSLASH_ESCAPES)])
def test_a_statement_in_another_session_than_its_own_is_noticed(
    monkeypatch: pytest.MonkeyPatch, session: DdlSession
) -> None:
    monkeypatch.setattr(query_session, "session_of", lambda query: session)
    told = differing(("ALTER TABLE `orders` ADD COLUMN `note` INT", "CREATE TABLE `a b` (`id` INT DEFAULT '\\\\')"))
    assert {text.split()[0] for text in told} >= {"kind", "tables", "messages", "filter", "replay", "stream", "undo"}


def test_a_text_in_another_character_set_than_its_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_event, "charset_of", lambda collation: "utf8mb4")
    made = Query.parse(statement("DROP TABLE `表`").query.pack())
    status = struct.pack("<BHHH", 4, 13, 13, 255)
    sjis = Statement(Query.parse(Query(1, 0, 0, b"", "DROP TABLE `表`".encode("cp932"), status).pack()))
    assert Statement(made).tables == (("Shop", "表"),)
    assert sjis.tables != (("", "表"),)
    monkeypatch.undo()
    assert Statement(sjis.query).tables == (("", "表"),)
