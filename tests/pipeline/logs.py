"""Nodes' logs in one line, and what a scan finds in any pieces of them, written to be read.

    "P1 P2 C1=7 L | C2=9 L / W3=12 P3 C3"

`P1` prepares a branch of transaction 1, `C1=7` commits it with TSO 7, `C1` with the TSO of a commit row `W1=7` before
it or with none, `R1` rolls it back; `M1`, `H1` and `S1` prepare a marker, a heartbeat and a sync point. `L` is a local
transaction, `D` a DDL. All touch table d.t; `P1:x` and `L:x` touch d.x. A piece ends at `|`, a file at `/`.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.assemble.driver import assemble_node
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.blocks import HELD, Held, holding
from binlog_merge.pipeline.base.branches import Carry, LateCommit, OpenBranch
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.scan.task import LOCAL_COLUMNS, ROW_COLUMNS, TIMED_COLUMNS
from binlog_merge.pipeline.scan.values import PieceBlock, ScanResult, TsoSpan
from snapshot_store.tso import OrderKey

SIZE = 10  # bytes of every event
FLAGS = {"P": 0, "M": k.MARKER, "H": k.HEARTBEAT, "S": k.SYNC_POINT}  # of a branch, by the word that prepares it


class Event(NamedTuple):
    """One word of a log, and where it stands in its file."""

    kind: str
    transaction: int
    tso: int | None
    table: str
    at: int


class Row(NamedTuple):
    """What comes out of a log: a branch or a local transaction, where its bytes are."""

    key: OrderKey
    node: int
    file: int
    start: int
    end: int


BLOCKS = Held()
"""The blocks of pieces; tests of this folder read them."""

_numbers = itertools.count()


def block_of(timed: Mapping[str, Column], local: Mapping[str, Column], rows: Mapping[str, Column]) -> PieceBlock:
    """Return the block of a piece, in memory."""
    block = PieceBlock(f"{HELD}log-{next(_numbers)}")
    with holding(BLOCKS):
        block.write(timed, local, rows)
    return block


def words(text: str) -> list[list[list[Event]]]:
    """Return a log's events, by file and piece."""
    files = []
    for file in text.split("/"):
        pieces, at = [], 4
        for piece in file.split("|"):
            found = []
            for word in piece.split():
                match = re.fullmatch(r"([PMHSCRWLD])(\d*)(?:=(\d+))?(?::(\w+))?", word)
                assert match is not None, word
                tso = None if match[3] is None else int(match[3])
                found.append(Event(match[1], int(match[2] or 0), tso, match[4] or "t", at))
                at += SIZE
            pieces.append(found)
        files.append(pieces)
    return files


def rows(text: str, node: int = 1) -> list[Row]:
    """Return what comes out of a log, in global order: it is read once, from its beginning to its end."""
    found: list[Row] = []
    told: dict[int, int] = {}
    prepared: dict[int, tuple[int, int]] = {}
    greatest, seq = (0, 0), 0
    for number, file in enumerate(words(text)):
        for kind, transaction, own, _, at in (event for piece in file for event in piece):
            place = (number, at)
            if kind in FLAGS:
                prepared[transaction] = place
            elif kind == "R":
                prepared.pop(transaction, None)
            elif kind == "W":
                told[transaction] = own or 0
            else:
                tso = own if own is not None else told.get(transaction) if kind == "C" else None
                place = prepared.pop(transaction) if kind == "C" else place
                if tso is None:
                    seq += 1
                elif (tso, transaction) > greatest:
                    greatest, seq = (tso, transaction), 0
                key = OrderKey(*greatest, seq, node) if tso is None else OrderKey(tso, transaction, 0, 0)
                if kind != "D":
                    found.append(Row(key, node, place[0], place[1], place[1] + SIZE))
    return sorted(found)


def scan(events: Sequence[Event], file: int = 0, seen: int = -1, number: int = 0) -> tuple[ScanResult, PieceBlock]:
    """Return what a scan finds in a piece; `seen` is up to where an earlier run had read its file."""
    timed: list[tuple[int, ...]] = []
    local: list[tuple[int, ...]] = []
    late: list[LateCommit] = []
    prepared: dict[int, OpenBranch] = {}
    told: dict[int, int] = {}
    used: dict[int, int] = {}
    greatest = (0, 0)
    sets: list[tuple[tuple[str, str], ...]] = [()]
    new = []
    for kind, transaction, own, table, at in events:
        tables = (("d", table),)
        if tables not in sets:
            sets.append(tables)
        hashes = (transaction, 1)
        if kind in FLAGS:
            place = (at, at + SIZE, sets.index(tables), FLAGS[kind])
            prepared[transaction] = OpenBranch(hashes, hashes, transaction, *place, *greatest)
        elif kind == "W":
            told[transaction] = own or 0
        elif kind in "LD":
            local.append((at, at + SIZE, at, sets.index(tables), k.DDL if kind == "D" else 0, *greatest))
        else:
            branch = prepared.pop(transaction, None)
            if kind == "R" and branch is not None:
                continue
            tso = own
            if kind == "C" and own is None and transaction in told:
                tso = used[transaction] = told[transaction]
            if tso is not None and branch is not None and not branch.flags & k.SYNC_POINT:
                timed.append((tso, transaction, branch.start, branch.end, at, branch.set, branch.flags))
                new += [(tso, transaction)] if at >= seen else []
                greatest = max(greatest, (tso, transaction))
                continue
            where = None if branch is None else (branch.start, branch.end, branch.set, branch.flags)
            behind = (0, 0) if branch is None else (branch.max_tso, branch.max_transaction)
            waits = kind == "C" and tso is None
            held = len(local) if waits else -1
            late.append(
                LateCommit(
                    held, len(local), hashes, hashes, transaction, tso, kind == "R", at, at, where, behind
                )
            )  # fmt: skip
            if waits:
                start, end, set_number, flags = where or (-1, -1, 0, 0)
                local.append((start, end, at, set_number, flags | k.PLACEHOLDER, *greatest))
            elif tso is not None:
                greatest = max(greatest, (tso, transaction))
    end = events[-1].at + SIZE if events else 4
    pending = {t: tso for t, tso in told.items() if t not in used or t in prepared}
    result = ScanResult(
        piece=number, node="", file_index=file, first=events[0].at if events else -1, end=end, reached=end,
        clean_end=True, truncated=None, timed=len(timed), local=len(local), groups=len(events), events=len(events),
        ignored=0, max_tso=greatest[0], max_transaction=greatest[1],
        locals_after_max=sum(row[-2:] == greatest for row in local), least_new=min(new, default=None),
        quantiles=tuple((tso, SIZE) for tso in [*sorted(row[0] for row in timed), *(row[5] for row in local)]),
        sets=tuple(sets), late=tuple(late),
        open=tuple(prepared.values()), commit_rows=tuple((t, 1, tso) for t, tso in pending.items()),
        used_rows=len(used), ddl=tuple(i for i, row in enumerate(local) if row[4] & k.DDL), markers=(),
        local_markers=(), unfinished=None,
        timed_span=TsoSpan(min(timed)[0], max(timed)[0]) if timed else None,
        last_timed=(*sorted(timed)[-1][:2], sorted(timed)[-1][6]) if timed else None,
    )  # fmt: skip
    spent = [(t, 1, tso) for t, tso in used.items()]
    return result, block_of(
        columns(TIMED_COLUMNS, sorted(timed)), columns(LOCAL_COLUMNS, local), columns(ROW_COLUMNS, spent)
    )


def columns(names: Sequence[str], found: Iterable[Sequence[int]]) -> dict[str, Column]:
    """Return rows as named columns."""
    table = np.array(list(found), np.int64).reshape(-1, len(names))
    return {name: table[:, i] for i, name in enumerate(names)}


def node_file(number: int, size: int = 1 << 20, in_use: bool = False, **values: Any) -> NodeFile:
    """Return a file that was found, the one with this index; it need not be there."""
    name = f"binlog.{number + 1:06d}"
    given = {"previous_gtids": None, "identity": name, **values}
    return NodeFile("", f"/{name}", name, number + 1, size, in_use, "8.4.0", 1, 1, 0, 0, **given)


def node_input(text: str = "L", node: int = 1, first: int = 0, carry: Carry | None = None, **values: Any) -> NodeInput:
    """Return one node's part of a run that begins with file `first`."""
    given = {"seen": None, "gtids": NodeGtids(), **values}
    files = tuple(node_file(i) for i in range(len(words(text))))
    return NodeInput("abc"[node - 1], node, files, first, carry or Carry(), **given)


def assembled(text: str, node: int = 1, source: NodeInput | None = None, end_of_input: bool = True) -> ScannedNode:
    """Return a node with this log, scanned in its pieces and assembled: all of it, or as `source` says."""
    source = source or node_input(text, node)
    pieces = []
    for file, parts in enumerate(words(text)):
        if file >= source.first:
            at = -1 if source.seen is None or file > source.seen[0] else source.seen[1]
            at = 1 << 62 if source.seen is not None and file < source.seen[0] else at
            start = source.resume.start if file == source.first else 4
            found = [[event for event in part if event.at >= start] for part in parts]
            pieces += [scan(part, file, at, number) for number, part in enumerate(found)]
    blocks = [block for _, block in pieces]
    return assemble_node(source, [result for result, _ in pieces], blocks, end_of_input)


def rows_of(node: ScannedNode) -> list[Row]:
    """Return what comes out of an assembled node, in global order."""
    found = [Row(e.key, e.node, e.file_index, e.start, e.end) for e in node.edges]
    for block in node.blocks:
        timed = zip(*(block.timed()[name].tolist() for name in ("tso", "transaction", "start", "end")), strict=True)
        found += [Row(OrderKey(tso, x, 0, 0), block.node, block.file_index, *place) for tso, x, *place in timed]
        local, keys = block.local()
        kept = {branch.local: branch for branch in block.patch.kept}
        for i in np.flatnonzero(keys.alive & ((local["flags"] & k.DDL) == 0)).tolist():
            key = OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node)
            file, start, end = block.file_index, int(local["start"][i]), int(local["end"][i])
            if i in kept:
                file, start, end = kept[i].file_index, kept[i].start, kept[i].end
            found.append(Row(key, block.node, file, start, end))
    return sorted(found)


@st.composite
def logs(draw: st.DrawFn, most: int = 14, first: int = 1, tables: str = "t") -> list[str]:
    """Draw the words of a log as nodes write them: a commit TSO is greater than those committed before its prepare."""
    found: list[str] = []
    open_: dict[int, int] = {}
    told: dict[int, int] = {}
    greatest, number = 0, first
    table = lambda: draw(st.sampled_from(tables))  # noqa: E731
    for kind in draw(st.lists(st.sampled_from("PPPCCCCWRLLD"), max_size=most)):
        if kind in "LD":
            found.append(f"{kind}:{table()}")
        elif kind == "P":
            open_[number] = greatest
            found.append(f"P{number}:{table()}")
            number += 1
        elif open_:
            transaction = draw(st.sampled_from(sorted(open_)))
            tso = told.get(transaction, open_[transaction] + draw(st.integers(1, 5)))
            if kind == "W":
                told[transaction] = tso
                found.append(f"W{transaction}={tso}")
                continue
            del open_[transaction]
            kind = "C" if transaction in told else kind  # what has a commit row is decided
            carried = kind == "C" and (transaction in told or draw(st.integers(0, 3)) > 0)
            shown = carried and transaction not in told
            found.append(f"{kind}{transaction}={tso}" if shown else f"{kind}{transaction}")
            greatest = max(greatest, tso) if carried else greatest
    return found


@st.composite
def cut(draw: st.DrawFn, found: Sequence[str], marks: str = "||/") -> str:
    """Draw a log of these words, cut into pieces and files."""
    at = draw(st.lists(st.sampled_from([" ", " ", *marks]), min_size=len(found), max_size=len(found)))
    return "".join(f"{mark} {word} " if i else word + " " for i, (mark, word) in enumerate(zip(at, found, strict=True)))
