"""Cutting a text into tokens by sqlglot's tokenizer, with a dialect that has no keywords.

Which words are keywords depends on the position in the statement, and MySQL allows most keywords as names.
"""

import re
from typing import Any

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.lexer import Token, TokenKind, decode_string
from snapshot_store.mysql.sql.session import DdlSession


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


def tokens_of(text: str, session: DdlSession, offset: int = 0) -> list[Token]:
    """Return the tokens of a text that `expand` returned; their offsets start at `offset`."""
    dialect = _DIALECTS[session.ansi_quotes, session.backslash_escapes]
    try:
        raw = dialect().tokenize(text)
    except TokenError as error:
        raise DdlNotUnderstood(text, f"cannot be cut into tokens ({error})") from None
    tokens = []
    for token in raw:
        start, end = token.start, token.end + 1
        kind, value = _read(token.token_type, text[start:end], session)
        tokens.append(Token(kind, value, start + offset, end + offset))
    return tokens


def _read(type: TokenType, source: str, session: DdlSession) -> tuple[TokenKind, str]:
    if source[0] == "`" or (source[0] == '"' and session.ansi_quotes):
        return "name", source[1:-1].replace(source[0] * 2, source[0])
    if type in (TokenType.STRING, TokenType.NATIONAL_STRING):
        return "string", decode_string(source.lstrip("nN"), session.backslash_escapes)
    if type in (TokenType.HEX_STRING, TokenType.BIT_STRING):
        if not _BITS.fullmatch(source):
            raise DdlNotUnderstood(source, "no hexadecimal or bit literal")
        return "bits", source
    if type == TokenType.NUMBER:
        return "number", source
    if type in (TokenType.VAR, TokenType.IDENTIFIER):
        return "word", source
    return "symbol", source


_BITS = re.compile(r"0[xX][0-9a-fA-F]+|[xX]'(?:[0-9a-fA-F]{2})*'|0[bB][01]+|[bB]'[01]*'")
