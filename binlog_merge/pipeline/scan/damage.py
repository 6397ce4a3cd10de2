"""Errors for the damage that the scan kernel finds."""

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.errors import (
    ChecksumMismatch,
    CommitTsoConflict,
    MergeError,
    RowsWithoutTableMap,
    StatementDml,
    UnknownEvent,
    UnsupportedInput,
)

_DAMAGE = {
    k.BAD_SIZE: "an event's length is impossible",
    k.BAD_CHECKSUM: "an event's checksum is wrong",
    k.BAD_POSITION: "an event's log_pos is not where it ends",
    k.BAD_BODY: "an event's body contradicts its length",
    k.UNFINISHED: "a transaction begins before the one before it has ended",
    k.OUTSIDE: "an event of a transaction stands outside of one",
    k.BAD_XID: "an XA statement's transaction id cannot be read",
    k.DUPLICATE_XID: "an XA transaction is prepared twice",
    k.NO_GTID: "a transaction begins without a GTID event, though those before it have one",
    k.BAD_LENGTH: "a transaction is longer or shorter than its GTID event says: an event is missing or doubled",
}


def damage(reason: int, kind: int, place: int) -> MergeError:
    """Return the error for what stopped the kernel at an event of type `kind` (-1: none) at offset `place`."""
    if reason == k.NO_TABLE_MAP:
        return RowsWithoutTableMap(
            "a rows event names a table id that no table map of its transaction has", position=place
        )
    if reason == k.UNKNOWN_EVENT:
        return UnknownEvent(f"event type {kind} is not known, and is not marked ignorable", position=place)
    if reason == k.STATEMENT_EVENT:
        return StatementDml(f"event type {kind} belongs to statement-format logging", position=place)
    if reason == k.UNSUPPORTED:
        return UnsupportedInput(
            f"an event of type {kind} that cannot be merged (INCIDENT, or a logged ROLLBACK)",
            position=place,
            remedy="what stands before it is merged; begin a new output from a base taken after it",
        )
    if reason == k.XA_FORMAT:
        return UnsupportedInput(
            "a PolarDB-X transaction has a format id that is not one of 1 to 4, so what it is for is not known",
            position=place,
        )
    if reason == k.TWO_TSOS:
        return CommitTsoConflict(
            "a commit row gives a transaction another commit TSO than one before it", position=place
        )
    if reason == k.BAD_TSO:
        return UnsupportedInput(
            "a commit row's TSO has more than 63 bits",
            position=place,
            remedy="the second column of the commit table must hold the commit TSO",
        )
    return ChecksumMismatch(f"{_DAMAGE[reason]} (event type {kind})", position=place)
