"""The exception of a statement that is refused, and the refusals that more than one statement has."""

from typing import Final

from binlog_merge.protocol.packets import Err, ErrorCode

NO_ROWS: Final = (
    "rows of the whole log, not of a stream, are answered where it was started with --tables; else a CDC tool that "
    "takes a snapshot is to take definitions only (Debezium: snapshot.mode=no_data)"
)


class Refused(Exception):  # noqa: N818 (named after what is the case, like the errors of the project)
    """The statement is answered with this error."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.answer = Err.of(code, message)


def no_rows_of(schema: str, table: str) -> Refused:
    """Return the refusal of a SELECT from a user's table."""
    return Refused(
        ErrorCode.ER_NOT_SUPPORTED_YET,
        f"binlog-merge serve hands out a merged binlog and has no rows of {schema[:64]}.{table[:64]}: {NO_ROWS}",
    )


def unknown_table(schema: str, table: str) -> Refused:
    """Return the refusal of a statement about a table that does not exist."""
    return Refused(ErrorCode.ER_NO_SUCH_TABLE, f"Table '{schema[:64]}.{table[:64]}' doesn't exist")


def unknown_database(name: str) -> Refused:
    """Return the refusal of a statement about a database that does not exist."""
    return Refused(ErrorCode.ER_BAD_DB_ERROR, f"Unknown database '{name[:64]}'")
