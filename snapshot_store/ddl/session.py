"""The session a statement ran in, as far as it decides what the statement means."""

from dataclasses import dataclass

REAL_AS_FLOAT = 1 << 0
ANSI_QUOTES = 1 << 2
NO_BACKSLASH_ESCAPES = 1 << 20
"""Bits of sql_mode as the query event carries them (mysql-server `sql/system_variables.h`)."""


@dataclass(frozen=True, slots=True)
class DdlSession:
    """Settings of the session (most of them come with the query event) and of its server.

    The defaults are those of MySQL 8.0 and later. For a 5.7 server give its `charset_server`, `collation_server`,
    `default_collation_for_utf8mb4` ("utf8mb4_general_ci"), `explicit_defaults_for_timestamp` and `server_version`.
    """

    sql_mode: int = 0
    charset_server: str = "utf8mb4"
    collation_server: str = "utf8mb4_0900_ai_ci"
    default_collation_for_utf8mb4: str = "utf8mb4_0900_ai_ci"
    explicit_defaults_for_timestamp: bool = True
    default_storage_engine: str = "InnoDB"
    server_version: int = 90700

    @property
    def ansi_quotes(self) -> bool:
        """Tell whether "x" is a name, not a string."""
        return bool(self.sql_mode & ANSI_QUOTES)

    @property
    def backslash_escapes(self) -> bool:
        r"""Tell whether \n in a string is a line end."""
        return not self.sql_mode & NO_BACKSLASH_ESCAPES

    @property
    def real_as_float(self) -> bool:
        """Tell whether REAL means FLOAT."""
        return bool(self.sql_mode & REAL_AS_FLOAT)
