"""Random rows with columns of all types, and random conditions on them, as SQL."""

import random
from dataclasses import dataclass
from typing import Final

COLUMNS: Final = {
    "i": ("INT", "0 1 -5 7 2147483647 20210621 2021 100"),
    "u": ("BIGINT UNSIGNED", "0 1 18446744073709551615 9007199254740993 9007199254740992 20210621123456 5"),
    "d": ("DECIMAL(12,3)", "0 1 -0.5 10.100 0.001 2021.000 7.5"),
    "f": ("FLOAT", "0 0.1 1.5 123.45 1e30 7 -1"),
    "g": ("DOUBLE", "0 0.1 0.3 1e100 7 -2.5 1"),
    "b": ("BIT(10)", "b'0' b'1' b'1111111111' b'111' b'110001'"),
    "y": ("YEAR", "0 1999 2021 1970 2070 1901"),
    "s": (
        "VARCHAR(30)",
        "'' 'abc' 'ABC' '7' '7abc' '1e0' '0.1' '2021-06-21' '12:34:56' 'x' '1' '-5' '20210621' '0x41' '[1]' 'small'",
    ),
    "c": ("CHAR(12) COLLATE utf8mb4_bin", "'' 'abc' 'ABC' '7' '1' '0' '2021-06-21' 'small'"),
    "n": ("VARCHAR(20) COLLATE utf8mb4_general_ci", "'abc' 'É' '7' '' '1.0'"),
    "v": ("VARBINARY(20)", "'' 'abc' 'ABC' x'00ff' '7' '1'"),
    "e": ("ENUM('small','Medium','7','1','')", "'small' 'Medium' '7' '1' ''"),
    "m": ("SET('x','y','z','7')", "'' 'x' 'x,z' 'y,7' '7'"),
    "dt": (
        "DATETIME(6)",
        "'2021-06-21T12:34:56.789' '2021-06-21' '0000-00-00' '9999-12-31T23:59:59.999999' '2020-00-10'",
    ),
    "da": ("DATE", "'2021-06-21' '0000-00-00' '1999-12-31' '2020-02-29' '2021-00-00'"),
    "ts": ("TIMESTAMP(3) NULL", "'2021-06-21T12:34:56.789' '2021-06-21' '0000-00-00' '1999-12-31T23:59:59'"),
    "tm": ("TIME(2)", "'12:34:56.78' '-10:00:00' '00:00:00' '838:59:59' '00:00:12' '20:21:06'"),
    "j": (
        "JSON",
        """'1' '7' '0.1' '"abc"' '"7"' '[1]' '{}' 'null' 'true' '18446744073709551615' '""' '-5' '0' '1.0'""",
    ),
}
CREATE: Final = (
    f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())}) "
    "DEFAULT COLLATE utf8mb4_0900_ai_ci"
)
_WORDS: Final = (
    "0 1 7 -5 0.1 7.0 7.5 1e0 '7' 'abc' 'ABC' '' '7abc' '1' '0.1' '2021-06-21' '12:34:56' '12:34:56.78' 20210621 "
    "20210621123456 2021 21 99 123456 NULL TRUE FALSE b'111' 0x37 x'616263' 18446744073709551615 9007199254740993 "
    "'0000-00-00' 'small' 'x,z' 'medium' 'x' '[1]' 'É' _binary'abc' '1999' 1999 12 -1 '1e1'"
)
_CONSTANTS: Final = (
    *_WORDS.split(), "'2021-06-21 12:34:56.789'", "DATE '2021-06-21'", "TIME '12:34:56'", "'  7'", "' '",
    "TIMESTAMP '2021-06-21 00:00:00'", "CAST('1' AS JSON)", "CAST('\"abc\"' AS JSON)",
)  # fmt: skip
_CASTS: Final = ("SIGNED", "UNSIGNED", "CHAR", "DECIMAL(10,2)", "DATE", "DATETIME", "TIME", "BINARY", "DOUBLE")
_CALLS: Final = ("LOWER", "UPPER", "LENGTH", "CHAR_LENGTH", "ABS", "-", "FLOOR", "ROUND", "YEAR", "HOUR", "HEX")


@dataclass
class Conditions:
    """Makes conditions and rows."""

    rng: random.Random

    def row(self, number: int) -> str:
        """Return a row's values as SQL."""
        rng = self.rng
        values = ("NULL" if rng.random() < 0.08 else rng.choice(texts.split(" ")) for _, texts in COLUMNS.values())
        return f"({number}, {', '.join(values)})"

    def value(self, depth: int = 0) -> str:
        """Return a column, a constant, or something made of them."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.55:
            return rng.choice(list(COLUMNS))
        if kind < 0.9 or depth > 1:
            return rng.choice(_CONSTANTS)
        one, two = self.value(depth + 1), self.value(depth + 1)
        return rng.choice(
            (
                f"({one} {rng.choice('+-*/%&|^')} {two})", f"({one} DIV {two})", f"IFNULL({one}, {two})",
                f"CAST({one} AS {rng.choice(_CASTS)})", f"IF({self.condition(2)}, {one}, {two})",
                f"CONCAT({one}, {two})",
                f"{rng.choice(_CALLS)}({one})", "j->>'$'", "j->'$[0]'", f"COALESCE({one}, {two})",
            )
        )  # fmt: skip

    def condition(self, depth: int = 0) -> str:
        """Return a condition."""
        rng, kind, value = self.rng, self.rng.random(), self.value
        no = rng.choice(("", "NOT "))
        if kind < 0.5 or depth > 1:
            return f"{value()} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {value()}"
        if kind < 0.58:
            return f"{value()} {no}IN ({', '.join(value() for _ in range(rng.randrange(1, 4)))})"
        if kind < 0.66:
            return f"{value()} {no}BETWEEN {value()} AND {value()}"
        if kind < 0.7:
            return f"{value()} LIKE {rng.choice((value(), repr('7%'), repr('%b%'), repr('_')))}"
        if kind < 0.75:
            return f"{value()} IS {no}{rng.choice(('NULL', 'TRUE', 'FALSE', 'UNKNOWN'))}"
        if kind < 0.78:
            return value()
        if kind < 0.9:
            return f"({self.condition(depth + 1)}) {rng.choice(('AND', 'OR', 'XOR'))} ({self.condition(depth + 1)})"
        return f"NOT ({self.condition(depth + 1)})"
