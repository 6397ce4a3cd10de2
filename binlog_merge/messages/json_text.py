"""Columns as JSON text: an Arrow array of texts for each column, joined to objects row by row without Python's help.

A NULL stays null in an array; `joined` writes it as null.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.kernels import json_text as k

BASE64, BASE64_URL = k.BASE64, k.BASE64_URL


def literal(value: object) -> str:
    """Return a value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def joined(parts: Sequence[Any]) -> Any:
    """Return the texts that arrays and constant texts make, one behind the other; a null is the text null."""
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    # Large offsets: the texts of a batch may exceed 2 GiB where rows are long.
    whole = [pa.scalar(p, pa.large_string()) if isinstance(p, str) else pc.cast(p, pa.large_string()) for p in merged]
    return pc.binary_join_element_wise(
        *whole, pa.scalar("", pa.large_string()), null_handling="replace", null_replacement="null"
    )


def objects(names: Sequence[str], arrays: Sequence[Any], there: Any = None) -> Any:
    """Return a JSON object for each row; null where a mask says that there is no row."""
    if not arrays:
        raise ValueError("an object of no columns")
    parts: list[Any] = []
    for number, (name, array) in enumerate(zip(names, arrays, strict=True)):
        parts += ["{" if number == 0 else ",", literal(name), ":", array]
    whole = joined([*parts, "}"])
    return whole if there is None else pc.if_else(pa.array(there), whole, pa.scalar(None, whole.type))


def _buffers(array: Any) -> tuple[Any, Any]:
    """Return the offsets and the bytes of an array of texts or bytes."""
    wide = pc.cast(array, pa.large_binary())
    _, offsets, data = wide.buffers()
    places = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    if data is None or not data.size:
        return places, np.zeros(1, np.uint8)
    return places, np.frombuffer(data, np.uint8).copy() if not data.is_mutable else np.frombuffer(data, np.uint8)


def _texts(offsets: Any, out: Any, like: Any) -> Any:
    texts = pa.LargeStringArray.from_buffers(len(like), pa.py_buffer(offsets), pa.py_buffer(out))
    return texts if like.null_count == 0 else pc.if_else(like.is_valid(), texts, pa.scalar(None, texts.type))


def quoted(array: Any) -> Any:
    """Return texts as JSON strings."""
    offsets, data = _buffers(array)
    places = np.empty(len(array) + 1, np.int64)
    out = np.empty(k.quoted_sizes(offsets, data, places), np.uint8)
    k.quoted(offsets, data, out)
    return _texts(places, out, array)


def base64(array: Any, alphabet: Any = BASE64) -> Any:
    """Return bytes as JSON strings in base64."""
    offsets, data = _buffers(array)
    places = np.empty(len(array) + 1, np.int64)
    out = np.empty(k.base64_sizes(offsets, places), np.uint8)
    k.base64(offsets, data, alphabet, out)
    return _texts(places, out, array)


def hexed(array: Any) -> Any:
    """Return bytes as JSON strings of hexadecimal digits in lower case."""
    return pa.array([None if v is None else f'"{v.hex()}"' for v in array.to_pylist()], pa.large_string())


def latin1(array: Any) -> Any:
    """Return bytes as JSON strings in which each byte is the character of its number."""
    return quoted(pa.array([None if v is None else v.decode("latin-1") for v in array.to_pylist()], pa.large_string()))


def numbers(array: Any) -> Any:
    """Return numbers as JSON numbers."""
    return pc.cast(array, pa.string())


def floats(array: Any) -> Any:
    """Return FLOAT and DOUBLE values as JSON numbers that have a point or an exponent, as Java writes them."""
    texts = pc.cast(array, pa.string())
    whole = pc.invert(pc.match_substring_regex(texts, "[.e]"))
    return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def plain_decimals(array: Any) -> Any:
    """Return decimals as texts without an exponent."""
    texts = pc.cast(array, pa.string())
    if not pc.any(pc.match_substring(texts, "E")).as_py():
        return texts
    return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())


def unscaled(array: Any) -> Any:
    """Return the digits of decimals as the fewest big-endian bytes of two's complement."""
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    offsets, out = np.empty(len(array) + 1, np.int64), np.empty(max(1, len(data)), np.uint8)
    used = k.big_endian(width, np.ascontiguousarray(data).copy(), offsets, out)
    found = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(out[:used])]
    )
    return found if array.null_count == 0 else pc.if_else(array.is_valid(), found, pa.scalar(None, found.type))
