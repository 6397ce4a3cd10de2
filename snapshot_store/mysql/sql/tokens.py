"""Cutting a text into tokens by sqlglot's tokenizer, with a dialect that has no keywords.

Which words are keywords depends on the position in the statement, and MySQL allows most keywords as names.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.session import DdlSession

TokenKind = Literal["word", "name", "string", "number", "bits", "symbol", "end"]
_BITS = re.compile(r"0[xX][0-9a-fA-F]+|[xX]'(?:[0-9a-fA-F]{2})*'|0[bB][01]+|[bB]'[01]*'")


class _Plain(MySQL):
    class Tokenizer(MySQL.Tokenizer):
        KEYWORDS: dict[str, TokenType] = {}  # noqa: RUF012
        COMMENTS: list[str] = []  # noqa: RUF012


class _AnsiQuotes(MySQL):
    class Tokenizer(_Plain.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012
        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012


class _NoBackslash(MySQL):
    class Tokenizer(_Plain.Tokenizer):
        STRING_ESCAPES = ["'", '"']  # noqa: RUF012


class _AnsiNoBackslash(MySQL):
    class Tokenizer(_AnsiQuotes.Tokenizer):
        STRING_ESCAPES = ["'"]  # noqa: RUF012


# By (ANSI_QUOTES, backslash escapes).
_DIALECTS: dict[tuple[bool, bool], type[Any]] = {
    (False, True): _Plain,
    (True, True): _AnsiQuotes,
    (False, False): _NoBackslash,
    (True, False): _AnsiNoBackslash,
}


def cut(text: str, session: DdlSession) -> Iterator[tuple[TokenKind, int, int]]:
    """Yield the kind, start and end (exclusive) of each token of a text without comments.

    Raises DdlNotUnderstood if it cannot be cut.
    """
    try:
        raw = _DIALECTS[session.ansi_quotes, session.backslash_escapes]().tokenize(text)
    except TokenError as error:
        raise DdlNotUnderstood(text, f"cannot be cut into tokens ({error})") from None
    for token in raw:
        start, end = token.start, token.end + 1
        yield _kind(token.token_type, text[start:end], session), start, end


def _kind(type: TokenType, source: str, session: DdlSession) -> TokenKind:
    if source[0] == "`" or (source[0] == '"' and session.ansi_quotes):
        return "name"
    if type in (TokenType.STRING, TokenType.NATIONAL_STRING):
        return "string"
    if type in (TokenType.HEX_STRING, TokenType.BIT_STRING):
        if not _BITS.fullmatch(source):
            raise DdlNotUnderstood(source, "no hexadecimal or bit literal")
        return "bits"
    if type == TokenType.NUMBER:
        return "number"
    return "word" if type in (TokenType.VAR, TokenType.IDENTIFIER) else "symbol"
