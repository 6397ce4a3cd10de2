"""The layout of the render kernel's arrays: its registers and columns, and the reasons for which it stops."""

from typing import Any, NamedTuple

# Why the kernel stopped.
(
    FINISHED,  # all segments are written
    FULL,  # the transaction that is open does not fit the output buffer any more
    NEW_PLAN,  # no plan for the table map at IN
    SLOW,  # the rows event at IN is for Python: its new body goes into `inject`
    DDL_NEXT,  # the next transaction is a DDL, for Python to write
    OTHER_LENGTH,  # the transaction's length needs another width than guessed: restart it
    NOT_WHOLE,  # the event at IN is not whole in its segment
    BAD_CHECKSUM,
    NO_TABLE_MAP,
    BAD_ROWS,  # a row image contradicts its table map
    TOO_MANY_TABLES,
) = range(11)

# Registers.
(
    SEGMENT,  # the segment being read
    IN,  # offset of the next event in the source buffer; -1: the segment is not begun
    OUT,  # offset after what is written
    FILE_BASE,  # file position of out[0]
    SERVER_ID,
    SERVER_VERSION,
    ANONYMOUS,
    RANK,  # of the next transaction
    SEQUENCE,  # sequence_number of the next transaction in this file
    TXN_OUT,  # where the open transaction begins in the output
    TXN_SEGMENT,
    TIMESTAMP,
    LENGTH_WIDTH,  # bytes of the packed transaction length; 0: to be guessed
    LAST_ROWS,  # the last rows event of the open statement in the output, or -1
    N_MAPS,
    INJECT,  # > 0: the rows event at IN has this new body, in `inject`
    EVENTS,
    ROW_EVENTS,
    RESHAPED_ROWS,
    BYTES_OUT,
    SAVED_EVENTS,
    SAVED_ROW_EVENTS,
    SAVED_RESHAPED,
    PLAN,  # of the event that stopped the kernel
    LAST_SLOT,  # of `Plans.index`, found last
    CTS,  # where the order key is written: CTS_BEGIN, CTS_END, CTS_BOTH
    OWN_SERVER_ID,  # SERVER_ID of transactions without another
    STATEMENT_OUT,  # where the open statement's table maps begin in the output while no rows follow them, or -1
    STATEMENT_MAPS,  # how many they are
    FILTERED,  # 1: a filter has removed rows of the open statement
    CHECK_ROWS,  # 1: rows are checked before they are written, even in events with a checksum
) = range(31)
NOTHING = -1
"""The value of INJECT for a rows event without remaining rows."""
CTS_BEGIN, CTS_END, CTS_BOTH = range(3)
REGISTERS = 32

# Columns of `Plans.plans`.
(
    KIND,
    TABLE_ID,
    BODY,  # offset in `bytes` of the output table map's body after table id and flags
    BODY_LENGTH,
    PHYSICAL,  # column count
    LOGICAL,
    SHAPE,  # offset in `shapes`: physical (type, meta) pairs, then logical (source, pad offset, pad length) triples
    PADS_LENGTH,  # of all pads together
    ASKED,  # 0, or the number of the logical table, from 1, for whose rows a filter decides
    STEPS,  # offset in `shapes` of the steps that measure physical rows: see `row_lengths`
    KEYED,  # 0, or the number of the logical table's keys, from 1: see `pipeline.gather.keyed`
    WRITESET,  # 0, or the number of the table whose rows' keys decide what transactions depend on, from 1
    WATCHED,  # offset in `shapes` of the columns that the logical table's keys are made of: see `exchanges`
    PLAN_COLUMNS,
) = range(14)
PAD, TELLS = -1, -2  # instead of a source: a pad, and one that every before image holds
DROP, IDENTITY, RESHAPE, SLOWLY = range(4)

# What becomes of a rows event whose plan is asked.
(
    NOT_JUDGED,  # Python is to be asked
    KEPT,
    LEFT_OUT,
    READY,  # Python has its new body
) = range(4)

# Columns of the rows events that are found to be asked about.
(
    F_EVENT,  # where it begins
    F_BODY,
    F_END,  # of the body
    F_KIND,
    F_PLAN,
    F_SEGMENT,
    F_COLUMNS,
) = range(7)

MAX_COLUMNS = 4096
MAX_MAPS = 65536

# Columns of a window's segments.
S_POS, S_END, S_CRC, S_NODE, S_FIRST, S_LAST, S_DDL, S_BYTES, S_HINTED, S_COLUMNS = range(10)
# S_BYTES: input bytes of the whole transaction, on its first segment. S_HINTED: trace hints give the order.
# K_SERVER: the server id that the transaction's events carry, 0 for the output's own; K_ARCHIVE: the CTS tells that the
# transaction deletes what has outlived its time.
K_TSO, K_TRANSACTION, K_SEQ, K_NODE, K_COMMIT_US, K_SERVER, K_ARCHIVE, K_COLUMNS = range(8)


class Plans(NamedTuple):
    """The instructions for table maps: `index` is an open-addressing hash table by their bytes, to rows of `plans`."""

    index: Any  # int64[n, 5]: hash, offset of the key in `keys`, its length, plan + 1 (0: empty), node
    keys: Any  # uint8: table map bodies after table id and flags
    plans: Any  # int64[n, PLAN_COLUMNS]
    bytes: Any  # uint8: output table map bodies and pad cells
    shapes: Any  # int64
    maps: Any  # int64[MAX_MAPS, 2]: (table id, plan) of the open branch
    cells: Any  # int64[MAX_COLUMNS + 2, 2]: (offset, length) of a row's cells; -1 NULL, -2 absent; two of scratch
    verdicts: Any  # uint8: what becomes of the rows event that begins at a byte of the source buffer


FRAME = 512  # more bytes than the events that frame a transaction take
