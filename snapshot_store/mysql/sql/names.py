"""Names and strings in SQL."""

_ESCAPES = str.maketrans({"\0": r"\0", "\n": r"\n", "\r": r"\r", "\\": r"\\", "'": "''"})


def quote_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_string(value: str) -> str:
    """Return a string literal, escaped as the server's append_unescaped does."""
    return f"'{value.translate(_ESCAPES)}'"
