"""The failure of a transaction, as the flow raises it: what failed, where, and whether a retry alone may succeed."""

from binlog_merge.targets.server.mysql import passes
from binlog_merge.targets.server.transactions import Transaction


class Failed(Exception):  # noqa: N818
    """A transaction could not be applied; all before it are applied, and those in parallel have ended.

    `transaction` is None if not known; `row` is the refused row as text, "" if not known.
    """

    def __init__(self, error: Exception, transaction: Transaction | None, row: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.transaction = transaction
        self.row = row

    @property
    def text(self) -> str:
        """Return the target's message, and the row and statements that it is about."""
        statements = [] if self.transaction is None else self.transaction.statements
        return " ".join(map(str, self.error.args)) + "".join(f"; {what}" for what in (self.row, *statements) if what)

    @property
    def may_be_of_others(self) -> bool:
        """Return whether a retry, one transaction at a time, could succeed. For DDL it could not: it ran alone."""
        import pymysql

        refused = isinstance(self.error, pymysql.MySQLError) and not passes(self.error)
        return refused and not (self.transaction is not None and self.transaction.plans)
