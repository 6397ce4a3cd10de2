"""The layout of the scan kernel's arrays: its registers and columns, and the reasons for which it stops.

Numba has arrays, not objects; these names are the fields. Python and the kernels use the same names.
"""

from typing import Any, NamedTuple

# Why the kernel stopped.
(
    MORE,  # the next event is not complete in the buffer
    DONE,  # the next group begins at or after the stop offset
    GROW,  # an array is full: see `Scan.grow`
    NEW_TABLE,  # a table map names a table that is not in the dictionary
    PAYLOAD,  # a TRANSACTION_PAYLOAD_EVENT, to be unpacked by Python
    TAGGED_GTID,  # a GTID_TAGGED_LOG_EVENT, to be parsed by Python
    QUERY_IN_TRANSACTION,  # a statement inside a transaction: CREATE TABLE ... SELECT, or statement-format DML
    BAD_SIZE,
    BAD_CHECKSUM,
    BAD_POSITION,
    BAD_BODY,
    UNKNOWN_EVENT,
    STATEMENT_EVENT,
    NO_TABLE_MAP,
    UNFINISHED,  # a group begins inside another
    OUTSIDE,  # an event of a transaction outside one
    BAD_XID,
    DUPLICATE_XID,
    UNSUPPORTED,  # INCIDENT, ROLLBACK of a logged transaction, MariaDB's own events
    TWO_TSOS,  # two commit rows of one transaction differ
    BAD_TSO,  # a commit row's TSO has more than 63 bits
    XA_FORMAT,  # a PolarDB-X transaction id with a format id that is not known
    SEQUENCE,  # a group's sequence number is not the one that follows
    NO_GTID,  # a group has no GTID event, in a file whose groups have
    BAD_LENGTH,  # a group is longer or shorter than its GTID event says
    DECIDED,  # a group begins that somebody decided to leave out, to be named by Python
) = range(26)

# Registers.
(
    POS,  # offset in the buffer of the next event
    BASE,  # file offset of buffer[0]
    PHASE,
    GROUP_START,
    INNER_END,  # >= 0: the buffer is the inside of a payload event that ends there
    SET,  # node of the table-set automaton
    FLAGS,
    GNO,
    COMMIT_US,
    ORIGINAL_US,  # -1: none
    GTID_HASH,
    FIRST_TIMESTAMP,
    XID_1,
    XID_2,
    GTRID_1,
    GTRID_2,
    TRANSACTION_ID,
    MAX_TSO,
    MAX_TRANSACTION,
    SEQUENCE_TSO,  # the last commit sequence seen (events 80, 105, status variable 200); -1: none
    COMMIT_TABLE_ID,
    SEEN_IDS,  # table maps seen in the open group
    LAST_END,  # file offset after the last complete group
    CLEAN_END,  # a ROTATE or STOP event ended the file
    EVENTS,
    IGNORED,  # events skipped because they carry the ignorable flag
    NAMES_END,
    N_TABLES,
    N_SETS,
    N_TIMED,
    N_LOCAL,
    N_LATE,
    N_XIDS,  # used slots, dead ones too
    N_TSOS,
    GROUPS,
    COMMIT_ROWS,
    N_STEPS,  # used slots of the table-set automaton, those of moves that lead nowhere new too
    XID_KIND,  # of the transaction id last read: see NORMAL_XID
    ROW_TSO,  # which column of the commit table, or of the transaction log, holds the TSO
    ROW_KEY_IS_NUMBER,  # it is the transaction log, whose key is the transaction id
    LOG_TSO,  # what the open group wrote into the transaction log; -1: nothing
    LOG_TRANSACTION,
    NEXT_SEQUENCE,  # the sequence number that the next group must have; negative if not known yet
    FIRST_SEQUENCE,  # that of the first group; -1: none yet
    N_GTIDS,
    GTID_ROW,  # the row of `gtids` that has the last group's GTID
    LENGTH_FROM,  # file offset of the open group's GTID event
    LOGGED_LENGTH,  # the group's length in its GTID event; -1: it has none
    PASSED_OVER,  # bytes of events in the open group that are passed over
    LEFT_OUT,  # groups that are left out, as their GTIDs are in `elsewhere`
    DECIDED_AT,  # file offset after the first byte of the last one that Python has named
) = range(51)
REGISTERS = 56

# Values of NEXT_SEQUENCE before the first group: in the middle of a file it may be any, at its beginning 1, or 0 for
# all of a server that writes none.
ANY_SEQUENCE, FILE_BEGINS = -1, -2

# Values of PHASE. CARRIED: a PolarDB-X carrier opened the group, in front of its GTID event. LEAVING_OUT: in a group
# whose GTID is in `elsewhere`.
IDLE, STARTED, IN_LOCAL, IN_XA, XA_ENDED, CARRIED, LEAVING_OUT = range(7)

# Values of XID_KIND: kinds of transactions by PolarDB-X's format ids and names (`polardbx.xids`).
NORMAL_XID, ARCHIVE_XID, IGNORED_XID, STRANGE_XID, FOREIGN_XID = range(5)

# Flags of a branch.
HAS_COMMIT_ROWS = 1
MARKER = 2
COMPRESSED = 4
DDL = 8
OWN_TSO = 16  # a local transaction placed by a TSO of its own
PLACEHOLDER = 32  # the row of an XA COMMIT without a known TSO
FLAG_CREATE_SELECT = 64
ARCHIVE = 128  # rows deleted because their time to live is over (PolarDB-X TTL tables)
DISCARD = 256  # a transaction of PolarDB-X's own that no reader takes
HEARTBEAT = 512  # writes the heartbeat table
SYNC_POINT = 1024  # writes the sync point table

T_TSO, T_TRANSACTION, T_START, T_END, T_COMMIT_US, T_SET, T_FLAGS, T_COMMIT_AT, T_COLUMNS = range(9)
L_START, L_END, L_COMMIT_US, L_SET, L_FLAGS, L_MAX_TSO, L_MAX_TRANSACTION, L_COLUMNS = range(8)
(
    X_LOCAL,  # index of its placeholder among the locals, or -1
    X_LOCALS_BEFORE,
    X_XID_1,
    X_XID_2,
    X_GTRID_1,
    X_GTRID_2,
    X_TRANSACTION,
    X_TSO,  # -1: unknown, -2: this is a rollback
    X_COMMIT_US,
    X_COMMIT_AT,
    X_START,  # of the prepared branch, or -1
    X_END,
    X_SET,
    X_FLAGS,
    X_MAX_TSO,  # the greatest (tso, transaction) before the prepared branch
    X_MAX_TRANSACTION,
    X_COLUMNS,
) = range(17)
(
    P_XID_1,
    P_XID_2,
    P_GTRID_1,
    P_GTRID_2,
    P_TRANSACTION,
    P_START,
    P_END,
    P_SET,
    P_FLAGS,
    P_MAX_TSO,  # the greatest commit TSO before the prepare
    P_MAX_TRANSACTION,  # and its transaction
    P_STATE,  # 0 empty, 1 live, 2 dead
    P_COLUMNS,
) = range(13)
# Intervals of GTIDs: the source's two halves, the number that Python gave the tag (0: none); G_END is not included.
# G_OWN: it carries its transaction's commit TSO; in `elsewhere`, what somebody decided about it.
G_SID_1, G_SID_2, G_TAG, G_OWN, G_START, G_END, G_COLUMNS = range(7)
UNDECIDED, SKIPPED, REPLACED = range(3)  # nothing is decided; it is left out; other events are read in its place
C_GTRID_1, C_GTRID_2, C_TSO, C_STATE, C_COLUMNS = range(5)  # C_STATE: 0 empty, 1 unused, 2 used

# What a table name is to the scan.
ORDINARY, COMMIT_TABLE, MARKER_TABLE, LOG_TABLE, SYSTEM_TABLE, HEARTBEAT_TABLE, SYNC_POINT_TABLE = range(7)

# The second half of a gtrid's hash where its first is a PolarDB-X transaction id: the transaction log has nothing else.
BY_NUMBER = 0x44524453

# Carriers of the commit TSO (design: one function per carrier; `merge/carriers.py` names and describes them).
BY_COMMIT_TABLE, BY_ORIGINAL_TIMESTAMP, BY_ORIGINAL_MICROSECONDS, BY_GTID, BY_SEQUENCE, BY_TIME = range(1, 7)

END_OF_TIME = 4_294_967_296_000_000  # microseconds since 1970: no event's timestamp goes beyond 32 bits of seconds

# In PolarDB-X's own events (libbinlogevents of polardbx-engine), SEQUENCE_EVENT and GCN_EVENT.
SEQUENCE_COMMIT = 2  # type of a SEQUENCE_EVENT
GCN_COMMIT, GCN_PROPOSAL = 4, 16  # flags: the commit sequence was given from outside; it is a proposal at prepare
GCN_SIZE = 64  # no GCN_LOG_EVENT is longer

MAX_GNO = (1 << 63) - 1  # GTIDs' numbers are below it
MAX_TABLES_IN_GROUP = 65536
COMMIT_SHAPE = 256  # a count and up to 64 (type, metadata) pairs
MAX_EVENT_SIZE = (1 << 30) + (1 << 20)  # max_allowed_packet is at most 1 GiB; the event's own parts come on top


class Arrays(NamedTuple):
    """The arrays of a scan; Python replaces one by a bigger one when the kernel says GROW."""

    reg: Any  # int64[REGISTERS]
    names: Any  # uint8: schema NUL table NUL, one after the other
    tables: Any  # int64[n, 5]: hash, offset, length, table index + 1 (0: empty), kind
    steps: Any  # int64[n, 3]: set, table, set reached + 1 (0: empty)
    sets: Any  # int64[n, 2]: parent set, table
    timed: Any
    local: Any
    late: Any
    xids: Any
    tsos: Any
    gtids: Any
    elsewhere: Any  # int64[n, G_COLUMNS]: GTIDs whose groups are left out; with a tag of -1 file offsets of such groups
    ids: (
        Any  # int64[MAX_TABLES_IN_GROUP + COMMIT_SHAPE]: table ids mapped in the open group; behind them, from the end,
    )
    # the columns of the commit table
