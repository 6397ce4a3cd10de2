"""Names and strings in SQL."""

_ESCAPES = str.maketrans({"\0": r"\0", "\n": r"\n", "\r": r"\r", "\\": r"\\", "'": "''"})


def quote_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_string(value: str) -> str:
    """Return a string literal, escaped as the server's append_unescaped does."""
    return f"'{value.translate(_ESCAPES)}'"


def folded(name: str) -> str:
    """Return a name of a table or database as a server with lower_case_table_names=1 stores it: in lower case.

    A server folds characters one by one; one whose lower case is several characters stays.
    """
    return "".join(low if len(low := char.lower()) == 1 else char for char in name)
