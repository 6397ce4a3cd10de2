"""The cells that a column's rows have after an ALTER that changes its type, as a MySQL server makes them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from binlog_merge.binlog.encode import encode_cell as cell_of_text
from binlog_merge.binlog.temporal import Civil
from binlog_merge.log.statement import StatementSession
from binlog_merge.reshape.pads import encode_now
from binlog_merge.values.convert.cells import Policy, ReshapeOptions, make_converter
from binlog_merge.values.convert.time import moment_of
from binlog_merge.values.types import binlog_column, byte_length
from binlog_merge.values.value import ConversionError, decode_cell, encode_cell
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import DATES, ColumnType, Family
from snapshot_store.mysql.sql.session import ALLOW_INVALID_DATES, PAD_CHAR_TO_FULL_LENGTH

Cells = list[bytes | None]


def altered_cells(
    old: Column, new: Column, cells: Sequence[bytes | None], session: StatementSession, alone: bool = False
) -> Cells:
    """Return the new column's cells for those of the old one.

    A value that does not fit is an error in strict mode, and adjusted otherwise. NULL in a column that becomes
    TIMESTAMP NOT NULL is the statement's time, in any mode (`do_copy_timestamp`). `alone`: the statement does nothing
    else, so that a server that can do it in place does so. Raises ConversionError, CellValueError and UnsupportedInput
    for what is not known, and ReplayStopped for an unknown time zone.
    """
    cells_now = list(cells)
    if old.type.family is Family.TIME and new.type.family in DATES:
        old, cells_now = _on_the_clock(old), _today(old, cells_now, session)
    if old.type.name == "char" and new.type.name != "char" and session.ddl.sql_mode & PAD_CHAR_TO_FULL_LENGTH:
        old, cells_now = _padded(old, cells_now)
    zoned = (old.type.name == "timestamp") != (new.type.name == "timestamp")
    now = encode_now(new, session.now_us) if new.type.name == "timestamp" and not new.nullable else None
    new = replace(new, nullable=new.nullable or now is not None)
    if zoned and old.type.name == "timestamp":
        cells_now, old = [_moved(old, cell, session.local) for cell in cells_now], _on_the_clock(old)
    if zoned and new.type.name == "timestamp":
        # No TIMESTAMP is behind a month's end, and a server looks before it rounds (`validate_for_timestamp`).
        ddl = replace(session.ddl, sql_mode=session.ddl.sql_mode & ~ALLOW_INVALID_DATES)
        cells_now, old = _converted(old, _on_the_clock(new), cells_now, replace(session, ddl=ddl)), _on_the_clock(new)
        cells_now = [_moved(old, cell, session.utc) for cell in cells_now]
    change = _in_place if _may_stay(old, new) else _converted
    return [now if cell is None else cell for cell in change(old, new, cells_now, session, alone)]


def _may_stay(old: Column, new: Column) -> bool:
    """Return whether a server that changes the definition in place leaves bytes as they are, which a copy changes."""
    a, b = old.type, new.type
    if a.name == "char" and b.name == "binary":
        return byte_length(a) == byte_length(b)
    return a.name == b.name and a.family is Family.FLOAT and a.unsigned == b.unsigned


def _in_place(old: Column, new: Column, cells: Cells, session: StatementSession, alone: bool) -> Cells:
    """Return the cells of a column that may be changed in place. Raises ConversionError if that is not known.

    Spaces that pad a CHAR become part of a BINARY in place, as the converter has it; a copy has zero bytes there.
    """
    padded, stays = old.type.name == "char", alone and old.nullable == new.nullable
    if stays and not padded:
        return cells
    converted = _converted(old, new, cells, session)
    if stays:
        return converted
    differ = any(cell is not None and cell.endswith(b" ") for cell in converted) if padded else converted != cells
    if differ:
        raise ConversionError(f"column {old.name}: what they become depends on whether the server copied the table")
    return converted


def _today(column: Column, cells: Cells, session: StatementSession) -> Cells:
    """Return a TIME column's cells as those of DATETIME, counted from the day of the statement."""
    now = session.local(moment_of(session.now_us))
    midnight, moments = datetime(now.year, now.month, now.day), _on_the_clock(column)
    cells_today: Cells = []
    for cell in cells:
        span = None if cell is None else decode_cell(column.type, cell)
        there = isinstance(span, timedelta)
        text = (midnight + span).isoformat(" ", "microseconds") if isinstance(span, timedelta) else ""
        cells_today.append(cell_of_text(*binlog_column(moments), text) if there else None)
    return cells_today


def _padded(column: Column, cells: Cells) -> tuple[Column, Cells]:
    """Return a CHAR column as one of VARCHAR, and its cells with the spaces that PAD_CHAR_TO_FULL_LENGTH shows."""
    width = column.type.length or 1
    wide = replace(column, type=replace(column.type, name="varchar", length=width))
    texts = [None if cell is None else decode_cell(column.type, cell) for cell in cells]
    return wide, [encode_cell(wide.type, text.ljust(width)) if isinstance(text, str) else None for text in texts]


def _converted(old: Column, new: Column, cells: Cells, session: StatementSession, alone: bool = False) -> Cells:
    policy: Policy = "error" if session.ddl.strict else "clamp"
    options = ReshapeOptions(policy, sql_mode=session.ddl.sql_mode, local=session.local)
    converter = make_converter(old, new, binlog_column(old), options)
    return cells if converter is None else [converter(cell) for cell in cells]


def _on_the_clock(column: Column) -> Column:
    """Return the DATETIME column with a TIMESTAMP column's values in a session's time zone."""
    return replace(column, type=ColumnType("datetime", fsp=column.type.fsp))


def _moved(column: Column, cell: bytes | None, move: Callable[[Civil], Civil]) -> bytes | None:
    """Return the cell of a date and time after `move`."""
    if cell is None:
        return None
    moment = decode_cell(column.type, cell)
    assert isinstance(moment, Civil)
    return encode_cell(_on_the_clock(column).type, move(moment))
