"""Column types of every family, and values to convert: extremes, what rounds, what does not fit, and random ones."""

from random import Random

TYPES = (
    *("tinyint", "tinyint unsigned", "smallint", "mediumint unsigned", "int", "int(6) unsigned zerofill", "bigint"),
    *("bigint unsigned", "decimal(10,3)", "decimal(6,2) unsigned", "decimal(30,10)", "float", "double", "float(7,2)"),
    *("bit(1)", "bit(10)", "bit(64)", "year", "date", "datetime", "datetime(6)", "timestamp", "timestamp(3)", "time"),
    *(
        "time(2)",
        "time(6)",
        "char(12)",
        "varchar(40)",
        "varchar(5) character set latin1",
        "char(4) character set utf16",
    ),
    *("varchar(60) character set gbk", "tinytext", "text character set latin1", "binary(4)", "varbinary(30)", "blob"),
    *("enum('a','b','12','Ü')", "enum('12','b','Ü','a')", "set('a','b','12')"),
    *("set('b','12','a','c','d','e','f','g','h')", "json"),
)

_TEXTS = [
    *("", " ", "0", "1", "-1", "12", "12abc", "abc", "1.5", "-2.5", "2.5e2", "1e400", " 7 ", "99", "1999", "70", ".5"),
    *("5.", "+5", "256", "-9223372036854775809", "18446744073709551616", "0x41", "--1", "1.5.5", "2155", "2156"),
    *("2020-01-02", "2020-01-02 03:04:05.678901", "20200102", "20200102030405", "2020-02-30", "0000-00-00", "1 2:3:4"),
    *("2020-01-02T03:04:05", "20-1-2", "12:34:56.789", "-1:02:03", "838:59:60", "900:00:00", "10:11", "0.0049999"),
    *("a", "B", "a,b", "b,a,zz", "Ü", "ü", "日本", "😀", "é  ", "12   ", "b,b", ",", "abcdefghijklmnopqrstuvwxyz"),
    *("[1, 2]", '{"b": 1, "a": 1.5}', "true", "null", '"x"', "{", "01"),
]
_INTEGERS = [
    *(0, 1, -1, 2, 5, 10, 12, 69, 70, 99, 100, 101, 255, 256, 1901, 1999, 2155, 2156, 10203, 123456, 991231, 20200102),
    *(101010101, 20200102030405, 235960, 8385959, 8390000),
]
_DECIMALS = (
    "0 1 -1 0.5 1.5 -1.5 2.5 0.049 0.05 0.951 12.999 99.99 -0.005 9999.99 1234567.891 20200102 101 70 1999 2155.4"
)
_FLOATS = (
    "0 1 -1 0.5 1.5 2.5 -2.5 3.5 0.1 123456.789 1e14 1e15 1e16 1e-5 1e-16 9e18 123456789012345678 1234.565 16777217"
)
_MOMENTS = [
    *("2020-01-02", "2020-01-02 03:04:05.678901", "2020-12-31 23:59:59.999999", "1999-06-30 12:30:30.5", "0000-00-00"),
    *("1970-01-01 00:00:01", "2038-01-19 03:14:07", "2020-12-31 23:59:59.499999"),
]
_DATES = [
    "2020-01-00",
    "2020-00-00",
    "1000-01-01",
    "9999-12-31 23:59:59",
    "1950-05-05 05:05:05.55",
    "2040-04-04 04:04:04.4",
]
_TIMES = [
    *("0:0:0", "1:2:3", "-1:02:03.55", "23:59:59.99", "838:59:59", "-838:59:59", "23:59:59.999999", "-0:0:0.4"),
    *("12:34:56.789012", "100:00:00"),
]
_JSON = [
    *("0", "-1", "1.5", "2.5", "1e20", "1e-7", "9223372036854775807", '"abc"', '"12"', '""', '"1.5"', "[1, 2]", "{}"),
    *('{"a": 1, "bb": "é"}', "null", "true", "2020", "70", "20200102", "123456", '"2020-01-02"', '"a"', "12"),
]


def quoted(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def values(definition: str, random: Random) -> list[str]:
    """Return SQL of values for a column of this type; some are too long or too great for it."""
    name = definition.split("(")[0].split(" ")[0]
    if name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return [
            str(n) for n in [*_INTEGERS, *(random.randint(-(2**63), 2**64) >> random.randint(0, 64) for _ in range(12))]
        ]
    if name == "decimal":
        drawn = (f"{random.randint(-(10**12), 10**12)}e-{random.randint(0, 12)}" for _ in range(10))
        return [*_DECIMALS.split(), *drawn]
    if name in ("float", "double"):
        return [*_FLOATS.split(), *(repr(random.uniform(-1, 1) * 10 ** random.randint(-8, 17)) for _ in range(10))]
    if name == "bit":
        drawn_bits = [random.getrandbits(random.randint(1, 64)) for _ in range(6)]
        return [str(n) for n in [0, 1, 12, 49, 65, 255, 1023, 2020, 20200102, 2**63, 2**64 - 1, *drawn_bits]]
    if name == "year":
        return ["0", "1901", "1970", "1999", "2000", "2024", "2069", "2155"]
    if name in ("date", "datetime", "timestamp"):
        more = _DATES if name != "timestamp" else []
        return [quoted(text) for text in (*_MOMENTS, *more, *(_moment(random) for _ in range(8)))]
    if name == "time":
        return [
            quoted(text) for text in (*_TIMES, *(f"{random.randint(-838, 838)}:{_clock(random)}" for _ in range(8)))
        ]
    if name in ("enum", "set"):
        return ["1", "2", "3", "4", "''", "7"]
    if name == "json":
        return [quoted(text) for text in _JSON]
    drawn_texts = (
        "".join(random.choice("0123456789-: .+,ab") for _ in range(random.randint(1, 11))) for _ in range(15)
    )
    found = [quoted(text) for text in (*_TEXTS, *drawn_texts)]
    if name in ("binary", "varbinary", "blob"):
        found += ["x'00ff'", "x'e9'", "x'61620000'", "x'80'", "x'6100'", "x'c3'", "x'00410042'", "x'd83dde00'"]
    return found


def _moment(random: Random) -> str:
    day = f"{random.randint(1971, 2037)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"{day} {random.randint(0, 23)}:{_clock(random)}"


def _clock(random: Random) -> str:
    return f"{random.randint(0, 59)}:{random.randint(0, 59)}.{random.randint(0, 999_999):06}"
