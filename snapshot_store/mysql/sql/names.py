"""Names and strings in SQL."""

_ESCAPES = {"\0": r"\0", "\n": r"\n", "\r": r"\r", "\\": r"\\"}
_IN_DEFINITIONS = str.maketrans({**_ESCAPES, "'": "''"})
_IN_EXPRESSIONS = str.maketrans({**_ESCAPES, "'": r"\'", "\x1a": r"\Z"})


def quote_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_plainly(value: str) -> str:
    """Return a string literal in which all but a quote stands for itself: for DuckDB, and NO_BACKSLASH_ESCAPES."""
    return "'" + value.replace("'", "''") + "'"


def quote_string(value: str, expression: bool = False) -> str:
    """Return a string literal as a server writes it in a definition or, with `expression`, in an expression.

    A definition doubles the quote (`append_unescaped`), an expression has a backslash before it.
    """
    return f"'{value.translate(_IN_EXPRESSIONS if expression else _IN_DEFINITIONS)}'"


def folded(name: str) -> str:
    """Return a name of a table or database as a server with lower_case_table_names=1 stores it: in lower case.

    A server folds characters one by one; one whose lower case is several characters stays.
    """
    return "".join(low if len(low := char.lower()) == 1 else char for char in name)
