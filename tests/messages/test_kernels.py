"""The kernels that write JSON text do what Python's own modules do."""

import base64
import json
import random
import time

import pyarrow as pa

from binlog_merge.messages import json_text as j

SEED = int(time.time())


def _some(random_: random.Random, whole: bytes) -> bytes:
    return bytes(random_.choice(whole) for _ in range(random_.choice((0, 1, 2, 3, 4, 31, 300))))


def test_texts_are_those_of_json() -> None:
    print("seed", SEED)
    random_ = random.Random(SEED)
    texts = [_some(random_, bytes(range(128))).decode() + random_.choice(("", "é中🙂")) for _ in range(500)]
    array = pa.array([*texts, None, ""])
    assert j.quoted(array).to_pylist() == [*(json.dumps(text, ensure_ascii=False) for text in texts), None, '""']
    assert j.quoted(array.slice(7, 20)).to_pylist() == j.quoted(array).to_pylist()[7:27]


def test_bytes_are_those_of_base64() -> None:
    random_ = random.Random(SEED)
    cells = [_some(random_, bytes(range(256))) for _ in range(500)]
    array = pa.array([*cells, None], pa.binary())
    assert j.base64(array).to_pylist() == [*(f'"{base64.b64encode(cell).decode()}"' for cell in cells), None]
    url = [*(f'"{base64.urlsafe_b64encode(cell).decode()}"' for cell in cells), None]
    assert j.base64(array, j.BASE64_URL).to_pylist() == url


def test_unscaled_digits_are_those_of_java() -> None:
    """java.math.BigInteger.toByteArray: the fewest bytes that have a bit for the sign."""
    random_ = random.Random(SEED)
    edges = [sign * ((1 << bits) + more) for bits in range(126) for more in (-1, 0, 1) for sign in (1, -1)]
    numbers = [*edges, *(random_.randrange(-(10**37), 10**37) for _ in range(200))]
    for kind in (pa.decimal128(38, 0), pa.decimal256(76, 0)):
        found = j.unscaled(pa.array([*map(_decimal, numbers), None], kind)).to_pylist()
        assert found == [*map(_java, numbers), None]


def _java(number: int) -> bytes:
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _decimal(number: int) -> object:
    from decimal import Decimal

    return Decimal(number)


def test_decimals_have_no_exponent() -> None:
    from decimal import Decimal

    texts = ["0.000000000000000001", "-0.000000001000000000", "12345678901234567890.123456789012345678", None]
    array = pa.array([None if text is None else Decimal(text) for text in texts], pa.decimal128(38, 18))
    assert j.plain_decimals(array).to_pylist() == texts
