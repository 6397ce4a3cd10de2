"""PolarDB-X's own schemas and tables, under the names they have on a node.

A logical table of the schema `__cdc__` has physical copies on every node: `__cdc_ddl_record___89vr` in
`__cdc___000000`. So a marker table is recognized by the prefix of its name. Nodes have lower_case_table_names=1; names
are compared case-insensitively all the same.
"""

from dataclasses import dataclass
from enum import Enum

CDC_SCHEMA = "__cdc__"


class MarkerTable(Enum):
    """The tables whose rows are the cluster's messages to readers of its binlogs."""

    DDL_RECORD = "__cdc_ddl_record__"
    INSTRUCTION = "__cdc_instruction__"
    HEARTBEAT = "__cdc_heartbeat__"
    SYNC_POINT = "__polardbx_sync_point__"


TRANSACTION_LOG = "__drds_global_tx_log"
"""The table where the oldest clusters keep the commit TSOs of transactions: TXID, …, COMMIT_TS."""

SYSTEM_TABLES = (TRANSACTION_LOG, "polarx_global_trx_log", "__drds_redo_log")
"""Tables of the transaction machinery, in every physical schema."""

ROW_ID = "__#alibaba_rds_row_id#__"
"""The column that a node adds to a table without a primary key (implicit_primary_key=ON): the last one, a BIGINT."""

IMPLICIT_KEY = "_drds_implicit_id_"
"""The column that the cluster adds to a logical table without a primary key."""

INTERNAL_COMMENT = "/* rds internal mark */"
"""The prefix of a node's internal statements, which readers of the binlog ignore."""


def is_named(name: str, known: str) -> bool:
    """Return whether a physical name is `known`, or `known` with a suffix that PolarDB-X appends (`_89vr`)."""
    lower, known = name.lower(), known.lower()
    return lower == known or (known.startswith("__") and lower.startswith(f"{known}_"))


@dataclass(frozen=True, slots=True)
class MarkerTables:
    """The logical names of a cluster's marker tables."""

    schema: str = CDC_SCHEMA
    ddl_record: str = MarkerTable.DDL_RECORD.value
    instruction: str = MarkerTable.INSTRUCTION.value
    heartbeat: str = MarkerTable.HEARTBEAT.value

    def kind(self, schema: str, table: str) -> MarkerTable | None:
        """Return which marker table a physical table is, None if it is none."""
        if is_named(table, MarkerTable.SYNC_POINT.value):
            return MarkerTable.SYNC_POINT
        if not is_named(schema, self.schema):
            return None
        for name, kind in (
            (self.ddl_record, MarkerTable.DDL_RECORD),
            (self.instruction, MarkerTable.INSTRUCTION),
            (self.heartbeat, MarkerTable.HEARTBEAT),
        ):
            if is_named(table, name):
                return kind
        return None


def is_cdc_schema(schema: str) -> bool:
    """Return whether a physical schema belongs to the logical schema `__cdc__`."""
    return schema.lower().startswith(CDC_SCHEMA)


def is_system_table(table: str) -> bool:
    """Return whether a physical table belongs to the transaction machinery."""
    return any(is_named(table, known) for known in SYSTEM_TABLES)


def is_internal(sql: str) -> bool:
    """Return whether a statement is a node's internal work."""
    return sql.lstrip().startswith(INTERNAL_COMMENT)
