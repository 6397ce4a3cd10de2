"""Values, all in one place to import from: decoding cells to Python and row images to Arrow."""

from binlog_merge.binlog.arrow import arrow_type, rows_to_batch
from binlog_merge.binlog.charsets import charset_of, decode_text, encode_text
from binlog_merge.binlog.columns import column_charsets, column_names, member_text, temporal_as_text
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.json_binary import JsonOpaque, decode_json, encode_json, json_text
from binlog_merge.binlog.json_diff import apply_diffs, apply_to_cell, pack_diffs, parse_diffs

__all__ = [
    "JsonOpaque",
    "apply_diffs",
    "apply_to_cell",
    "arrow_type",
    "charset_of",
    "column_charsets",
    "column_names",
    "decode_cell",
    "decode_json",
    "decode_text",
    "encode_json",
    "encode_text",
    "json_text",
    "member_text",
    "pack_diffs",
    "parse_diffs",
    "rows_to_batch",
    "temporal_as_text",
]
