"""Cells by column type: lengths, encoding and decoding, in a single module to import from.

A cell is the bytes of one column in a row image, its own length prefix included; `meta` is what `TableMap.metas`
holds for the column.
"""

from binlog_merge.binlog.cell_length import (
    CELL_LENGTH,
    DIGITS_TO_BYTES,
    METADATA_LEN,
    bit_length,
    cell_length,
    decimal_length,
    fraction_length,
    real_type,
    string_max_length,
    type_name,
)
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.encode import encode_cell

__all__ = [
    "CELL_LENGTH",
    "DIGITS_TO_BYTES",
    "METADATA_LEN",
    "bit_length",
    "cell_length",
    "decimal_length",
    "decode_cell",
    "encode_cell",
    "fraction_length",
    "real_type",
    "string_max_length",
    "type_name",
]
