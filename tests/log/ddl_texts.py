"""The statements of the fixtures and vectors, and how they are written in sessions of other sql_modes."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.events import Query, parse_event
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.query_session import session_of
from snapshot_store.ddl import DdlSession
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.lexer import expand, tokenize
from tests.snapshot_store.ddl import ddl_corpus

_ROOT: Final = Path(__file__).resolve().parents[2]
_VECTORS: Final = _ROOT.parent / "shared/vectors"
_VERBS: Final = ("CREATE ", "ALTER ", "DROP ", "RENAME ", "TRUNCATE ")
PLAIN: Final = DdlSession()


@cache
def ddl_texts() -> tuple[str, ...]:
    """Return each text once, as it is written in a session where `"` quotes a string and `\\` escapes."""
    found = dict[str, None]()
    for sql, session in (*_of_corpus(), *_of_nodes(), *_of_vectors()):
        try:
            found[written(sql, session, PLAIN)] = None
        except DdlNotUnderstood:
            found[sql] = None
    return tuple(found)


def written(sql: str, given: DdlSession, wanted: DdlSession, suffix: str = "") -> str:
    """Return a statement as another session writes it, its quoted names with a suffix. Raises DdlNotUnderstood."""
    text, _ = expand(sql, given)
    for token in reversed(tokenize(text, given)):
        source = text[token.start : token.end]
        if token.kind == "name":
            quote = '"' if wanted.ansi_quotes else "`"
            made = quote + (token.text + suffix).replace(quote, quote * 2) + quote
        elif token.kind == "string":
            value = token.text.replace("\\", "\\\\") if wanted.backslash_escapes else token.text
            made = source[: source.index(source.lstrip("nN")[0])] + "'" + value.replace("'", "''") + "'"
        else:
            continue
        sql = sql[: token.start] + made + sql[token.end :]
    return sql


def _of_corpus() -> Iterator[tuple[str, DdlSession]]:
    for name in ddl_corpus.FILES:
        for each in ddl_corpus.statements(name):
            if not each.is_session_setting:
                yield each.sql, each.session


def _of_nodes() -> Iterator[tuple[str, DdlSession]]:
    for path in sorted((_ROOT / "fixtures").glob("*/nodes/**/*")):
        if path.is_file() and path.read_bytes()[:4] == BINLOG_MAGIC:
            for event in walk(path.read_bytes(), str(path)):
                query = parse_event(event) if event.type_code == 2 else None
                if isinstance(query, Query) and _is_ddl(query.text):
                    yield query.text, session_of(query)


def _of_vectors() -> Iterator[tuple[str, DdlSession]]:
    for path in sorted(_VECTORS.glob("*.json")):
        yield from ((text, PLAIN) for text in _strings(json.loads(path.read_text())) if _is_ddl(text))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _is_ddl(text: str) -> bool:
    return text.lstrip().upper().startswith(_VERBS)
