"""The session that a statement ran in, as far as it affects the statement's meaning."""

from dataclasses import dataclass
from typing import Final

REAL_AS_FLOAT = 1 << 0
PIPES_AS_CONCAT = 1 << 1
ANSI_QUOTES = 1 << 2
NO_UNSIGNED_SUBTRACTION = 1 << 6
NO_AUTO_VALUE_ON_ZERO = 1 << 19
NO_BACKSLASH_ESCAPES = 1 << 20
STRICT_TRANS_TABLES = 1 << 21
STRICT_ALL_TABLES = 1 << 22
NO_ZERO_IN_DATE = 1 << 23
NO_ZERO_DATE = 1 << 24
PAD_CHAR_TO_FULL_LENGTH = 1 << 31
TIME_TRUNCATE_FRACTIONAL = 1 << 32
ALLOW_INVALID_DATES = 1 << 25
HIGH_NOT_PRECEDENCE = 1 << 29
PAD_CHAR_TO_FULL_LENGTH = 1 << 31
TIME_TRUNCATE_FRACTIONAL = 1 << 32
"""Bits of sql_mode as the query event carries them (mysql-server `sql/system_variables.h`)."""

SQL_MODES = {
    "REAL_AS_FLOAT": REAL_AS_FLOAT,
    "PIPES_AS_CONCAT": PIPES_AS_CONCAT,
    "ANSI_QUOTES": ANSI_QUOTES,
    "IGNORE_SPACE": 1 << 3,
    "ONLY_FULL_GROUP_BY": 1 << 5,
    "NO_UNSIGNED_SUBTRACTION": NO_UNSIGNED_SUBTRACTION,
    "NO_DIR_IN_CREATE": 1 << 7,
    "ANSI": 1 << 18,
    "NO_AUTO_VALUE_ON_ZERO": NO_AUTO_VALUE_ON_ZERO,
    "NO_BACKSLASH_ESCAPES": NO_BACKSLASH_ESCAPES,
    "STRICT_TRANS_TABLES": STRICT_TRANS_TABLES,
    "STRICT_ALL_TABLES": STRICT_ALL_TABLES,
    "NO_ZERO_IN_DATE": NO_ZERO_IN_DATE,
    "NO_ZERO_DATE": NO_ZERO_DATE,
    "ALLOW_INVALID_DATES": ALLOW_INVALID_DATES,
    "ERROR_FOR_DIVISION_BY_ZERO": 1 << 26,
    "TRADITIONAL": 1 << 27,
    "HIGH_NOT_PRECEDENCE": HIGH_NOT_PRECEDENCE,
    "NO_ENGINE_SUBSTITUTION": 1 << 30,
    "PAD_CHAR_TO_FULL_LENGTH": PAD_CHAR_TO_FULL_LENGTH,
    "TIME_TRUNCATE_FRACTIONAL": TIME_TRUNCATE_FRACTIONAL,
}

_ANSI = ("REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "ONLY_FULL_GROUP_BY")


def sql_mode_of(value: object) -> int:
    """Return the bits of what a session sets sql_mode to, names with commas or a number; unknown names have none."""
    text = str(value or "").upper()
    if text.isdecimal():
        return int(text)
    names = {name.strip() for name in text.split(",")}
    if "ANSI" in names:
        names.update(_ANSI)
    if "TRADITIONAL" in names:
        names.update(("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "NO_ZERO_IN_DATE", "NO_ZERO_DATE"))
    return sum(SQL_MODES.get(name, 0) for name in names)


DEFAULT_SQL_MODE = sum(
    SQL_MODES[name]
    for name in (
        "ONLY_FULL_GROUP_BY",
        "STRICT_TRANS_TABLES",
        "NO_ZERO_IN_DATE",
        "NO_ZERO_DATE",
        "ERROR_FOR_DIVISION_BY_ZERO",
        "NO_ENGINE_SUBSTITUTION",
    )
)
"""The default of servers since 5.7."""


@dataclass(frozen=True, slots=True)
class DdlSession:
    """Settings of a session (most of them are in the query event) and of its server.

    The defaults are those of MySQL 8.0 and later. For a 5.7 server give its `charset_server`, `collation_server`,
    `default_collation_for_utf8mb4` ("utf8mb4_general_ci"), `explicit_defaults_for_timestamp` and `server_version`.

    `time_zone`: the zone of literals for TIMESTAMP columns, and of UNIX_TIMESTAMP() in partitions. They are converted
    to UTC; with "" they stay as written. `local_zone`: the zone to which a literal for a DATETIME is converted that has
    an offset from UTC; "": `time_zone`, else UTC.

    `collation_database`: what the session has set it to, "" if not; CONVERT TO CHARACTER SET DEFAULT means it.

    `validate`: also refuse what a server would refuse. Statements from a binlog have been executed already, so they
    are not validated, least of all by another version's rules.
    """

    sql_mode: int = 0
    charset_server: str = "utf8mb4"
    collation_server: str = "utf8mb4_0900_ai_ci"
    default_collation_for_utf8mb4: str = "utf8mb4_0900_ai_ci"
    explicit_defaults_for_timestamp: bool = True
    default_storage_engine: str = "InnoDB"
    server_version: int = 90700
    charset_connection: str = "utf8mb4"
    collation_database: str = ""
    foreign_key_checks: bool = True
    generate_invisible_primary_key: bool = False
    validate: bool = False
    time_zone: str = ""
    local_zone: str = ""

    @property
    def ansi_quotes(self) -> bool:
        """Return whether "x" is a name instead of a string."""
        return bool(self.sql_mode & ANSI_QUOTES)

    @property
    def backslash_escapes(self) -> bool:
        r"""Return whether \n in a string is a line end."""
        return not self.sql_mode & NO_BACKSLASH_ESCAPES

    @property
    def strict(self) -> bool:
        """Return whether a value that does not fit is refused; without strict mode, the server adjusts it and warns."""
        return bool(self.sql_mode & (STRICT_TRANS_TABLES | STRICT_ALL_TABLES))

    @property
    def real_as_float(self) -> bool:
        """Return whether REAL means FLOAT."""
        return bool(self.sql_mode & REAL_AS_FLOAT)


STORED: Final = DdlSession()
"""The session in which definitions are kept: one spelling of expressions and of rendered statements."""
