"""NEWDECIMAL cells: digits in groups of nine, big-endian, so that the order of bytes is that of numbers.

The integer digits come first, with their incomplete group at the front, then the fraction digits, with their incomplete
group at the end. A group of n digits takes 0 1 1 2 2 3 3 4 4 4 bytes. The top bit of the first byte is flipped; a
negative number has all bytes inverted. Source: mysql-server `strings/decimal.cc` (decimal2bin).
"""

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from binlog_merge.binlog.cell_length import DIGITS_TO_BYTES, decimal_length
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.wire import Buffer

_CONTEXT = Context(prec=200)


def _groups(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """Return the digits of each group of the whole part and of the fraction."""
    whole = precision - scale
    before = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9)
    after = [9] * (scale // 9) + ([scale % 9] if scale % 9 else [])
    return before, after


def encode_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    """Return the bytes of `value` as DECIMAL(precision, scale), rounded half away from zero as MySQL does."""
    size = decimal_length(precision, scale)
    if not value.is_finite():
        raise CellValueError(f"{value} is no DECIMAL({precision},{scale})")
    try:
        fixed = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_CONTEXT)
    except InvalidOperation:
        raise CellValueError(f"{value} is no DECIMAL({precision},{scale})") from None
    digits = "".join(map(str, fixed.as_tuple().digits)).rjust(scale + 1, "0")
    if len(digits.lstrip("0")) > precision:
        raise CellValueError(f"{value} does not fit DECIMAL({precision},{scale})")
    digits = digits[-precision:].rjust(precision, "0")
    out = bytearray()
    pos = 0
    for group in (*_groups(precision, scale)[0], *_groups(precision, scale)[1]):
        out += int(digits[pos : pos + group]).to_bytes(DIGITS_TO_BYTES[group], "big")
        pos += group
    if fixed.is_signed() and any(out):  # there is no negative zero
        out = bytearray(byte ^ 0xFF for byte in out)
    out[0] ^= 0x80
    assert len(out) == size
    return bytes(out)


def decode_decimal(data: Buffer, precision: int, scale: int) -> Decimal:
    """Return the number in `data`, with exactly `scale` fraction digits."""
    size = decimal_length(precision, scale)
    if len(data) != size:
        raise BinlogFormatError(f"DECIMAL({precision},{scale}) of {len(data)} bytes, it takes {size}")
    raw = bytearray(data)
    negative = not raw[0] & 0x80
    raw[0] ^= 0x80
    if negative:
        raw = bytearray(byte ^ 0xFF for byte in raw)
    digits = ""
    pos = 0
    for group in (*_groups(precision, scale)[0], *_groups(precision, scale)[1]):
        width = DIGITS_TO_BYTES[group]
        number = int.from_bytes(raw[pos : pos + width], "big")
        if number >= 10**group:
            raise BinlogFormatError(f"DECIMAL({precision},{scale}): {number} is no group of {group} digits")
        digits += f"{number:0{group}d}"
        pos += width
    return Decimal((int(negative), tuple(map(int, digits)), -scale))
