"""Values in two forms of text that lose nothing: the SQL by which a server shows them, and that of literals from them.

    text     the value's text in UTF-8; hexadecimal digits of bytes
    written  what a server takes for the same bytes again: hexadecimal digits of strings, the numbers of members of ENUM
             and SET

In both, FLOAT and DOUBLE have all digits, as a number in a JSON array, and TIMESTAMP is in UTC if the session is.
"""

from snapshot_store.errors import UnsupportedType
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import CHARACTERS, MEMBERS, NUMERIC, OPAQUE, TEMPORAL, Family
from snapshot_store.mysql.sql.names import quote_string


def text_of(column: Column, source: str) -> str:
    """Return the SQL of the text of a value; `source` is the value's SQL."""
    family = column.type.family
    if family in CHARACTERS:
        return f"CONVERT({source} USING utf8mb4)"
    return f"HEX({source})" if family in OPAQUE else _plain(column, source)


def written_of(column: Column, source: str) -> str:
    """Return the SQL of the written form of a value."""
    family = column.type.family
    if family in OPAQUE or family is Family.TEXT:
        return f"HEX({source})"
    if family is Family.JSON:
        return f"HEX(CAST({source} AS CHAR))"
    return f"CAST({source} + 0 AS CHAR)" if family in MEMBERS else _plain(column, source)


def _plain(column: Column, source: str) -> str:
    family = column.type.family
    if family is Family.FLOAT:
        # A server may cut the last digit of a DOUBLE; in a JSON document it prints all significant digits.
        return f"IF({source} IS NULL, NULL, CAST(JSON_ARRAY(CAST({source} AS DOUBLE) + 0e0) AS CHAR))"
    if family in (Family.BIT, Family.YEAR) or column.type.zerofill:
        return f"CAST({source} + 0 AS CHAR)"
    if family in NUMERIC | TEMPORAL | {Family.JSON}:
        return f"CAST({source} AS CHAR)"
    raise UnsupportedType(column.type.name, "as a server's text")


def literal_of_text(column: Column, text: str | None) -> str:
    """Return SQL that a server takes for the value of this text."""
    if text is not None and (column.type.family in CHARACTERS or column.type.family is Family.JSON):
        return f"_utf8mb4 x'{text.encode().hex()}'"
    return literal_of_written(column, text)


def literal_of_written(column: Column, text: str | None) -> str:
    """Return SQL that a server takes for the value of this written form."""
    family = column.type.family
    if text is None:
        return "NULL"
    if family is Family.TEXT or family is Family.JSON:
        return f"_{column.type.charset if family is Family.TEXT else 'utf8mb4'} x'{text}'"
    if family in OPAQUE:
        return f"x'{text}'"
    if family is Family.FLOAT:
        return number_of(text)
    if family in TEMPORAL:
        return quote_string(text)
    if family in NUMERIC | MEMBERS | {Family.BIT}:
        return text
    raise UnsupportedType(column.type.name, "as a literal")


def number_of(text: str) -> str:
    """Return the number in the JSON array as which a server shows a FLOAT or DOUBLE."""
    return text.strip("[]")
