"""The failure of a replay, as the flow of transactions raises it: what failed, where, and whether it may pass alone."""

from binlog_merge.replay.server.mysql import passes
from binlog_merge.replay.server.transactions import Transaction


class Failed(Exception):  # noqa: N818
    """A transaction could not be applied; all before it is, and what runs beside it has come to its end.

    `transaction` is None where it is not known; `row` is the row that was refused, where that is known.
    """

    def __init__(self, error: Exception, transaction: Transaction | None, row: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.transaction = transaction
        self.row = row

    @property
    def text(self) -> str:
        """Return what the target said, and of what."""
        statements = [] if self.transaction is None else self.transaction.statements
        return " ".join(map(str, self.error.args)) + "".join(f"; {what}" for what in (self.row, *statements) if what)

    @property
    def may_be_of_others(self) -> bool:
        """Return whether rows were refused that might pass alone: a DDL had nothing beside it on its tables."""
        import pymysql

        refused = isinstance(self.error, pymysql.MySQLError) and not passes(self.error)
        return refused and not (self.transaction is not None and self.transaction.plans)
