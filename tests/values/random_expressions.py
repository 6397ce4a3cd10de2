"""Random expressions over columns of every type and collation, and rows whose values are at their limits, as SQL."""

import random
from dataclasses import dataclass
from typing import Final

from snapshot_store.mysql.sql.functions import FUNCTIONS


def _words(text: str) -> list[str]:
    return [word.replace("\u00a0", " ") for word in text.split(" ")]


_TEXTS: Final = (
    "'' 'a' 'A' 'ä' 'Äpfel' 'äpfel' 'café' 'CAFE' 'ß' 'Straße' 'STRASSE' 'œuvre' 'oeuvre' 'ﬁn' 'fin' 'e\u0301t\u00e9' "
    "'日本' 'ｅ' 'ＡＢ' '😀' 'a😀b' 'abc' 'ABC' 'abcabc' 'a,b,c' 'Ä,ß,c' 'x%y' 'x_y' '7' '-5' '7abc' '1e1' "
    "'0.1' '\u00a0\u00a07' "
    "'a\\tb' 'a\\nb' '0' '1' '9223372036854775807' '18446744073709551616' '2021-06-21' '2021-06-21\u00a012:34:56' "
    "'12:34:56' '0000-00-00' '[1,\u00a02]' 'small' 'x,z' 'ά' 'Σς' 'ı' 'İ' 'ŉ' 'Ж' 'й' 'и\u0306' 'aa\u0301a' '0x41' "
    "'\u00adab' 'Ö' 'O' 'ø' 'n' 'ñ'"
)
_LATIN: Final = (
    "'' 'a' 'Ä' 'ä' 'äpfel' 'APFEL' 'ß' 'ss' 'Straße' 'é' 'e' 'abc' 'ABC' 'a,b' '7' '-5' 'ÿ' 'þ' 'Þ' 'ø' 'x_y'"
)
_ASCII: Final = "'' 'a' 'A' 'abc' 'ABC' 'a,b' '7' '-5' 'x_y' '2021-06-21'"
_MOMENTS: Final = (
    "'2021-06-21T12:34:56.789' '2021-06-21' '0000-00-00' '9999-12-31T23:59:59.999999' '2020-00-10' "
    "'1000-01-01' '2020-02-29T23:59:59.5' '0001-01-01' '1970-01-01T00:00:01'"
)
_TIMES: Final = (
    "'12:34:56.78' '-10:00:00' '00:00:00' '838:59:59' '-838:59:59' '00:00:12' '20:21:06' '-00:00:01' '23:59:59.99'"
)
COLUMNS: Final = {
    "i8": ("TINYINT", "0 1 -1 127 -128 7"),
    "u8": ("TINYINT UNSIGNED", "0 1 255 7"),
    "i": ("INT", "0 1 -5 7 2147483647 -2147483648 20210621 2021 100 3"),
    "z": ("INT(6) UNSIGNED ZEROFILL", "0 1 7 4294967295 123"),
    "i64": ("BIGINT", "0 1 -1 9223372036854775807 -9223372036854775808 9007199254740993 20210621123456 5 3037000500"),
    "u64": ("BIGINT UNSIGNED", "0 1 18446744073709551615 9007199254740993 9223372036854775808 20210621123456 5"),
    "d": ("DECIMAL(12,3)", "0 1 -0.5 10.100 0.001 2021.000 7.5 999999999.999 -999999999.999 2.5"),
    "d38": ("DECIMAL(38,10)", "0 1 9999999999999999999999999999.9999999999 -0.0000000001 12345.6789 -7.5"),
    "du": ("DECIMAL(6,2) UNSIGNED", "0 1.5 9999.99 0.01 7"),
    "d65": ("DECIMAL(65,30)", "0 1 99999999999999999999999999999999999.999999999999999999999999999999 -0.5"),
    "f": ("FLOAT", "0 0.1 1.5 123.45 1e30 7 -1 2.5 -0.0 3.4e38 16777217"),
    "g": ("DOUBLE", "0 0.1 0.3 1e100 7 -2.5 1 1.7e308 -1.7e308 1e15 9007199254740993 -0.0 0.5"),
    "f7": ("FLOAT(7,2)", "0 1.5 12345.67 -0.01"),
    "b1": ("BIT(1)", "b'0' b'1'"),
    "b": ("BIT(10)", "b'0' b'1' b'1111111111' b'111' b'110001'"),
    "b64": ("BIT(64)", "0 1 0xffffffffffffffff 0x8000000000000000 65"),
    "y": ("YEAR", "0 1999 2021 1970 2070 1901 2155"),
    "s": ("VARCHAR(40)", _TEXTS),
    "s2": ("VARCHAR(40)", _TEXTS),
    "sas": ("VARCHAR(40) COLLATE utf8mb4_0900_as_cs", _TEXTS),
    "sai": ("VARCHAR(40) COLLATE utf8mb4_0900_as_ci", _TEXTS),
    "sg": ("VARCHAR(40) COLLATE utf8mb4_general_ci", _TEXTS),
    "su": ("VARCHAR(40) COLLATE utf8mb4_unicode_ci", _TEXTS),
    "s5": ("VARCHAR(40) COLLATE utf8mb4_unicode_520_ci", _TEXTS),
    "sb": ("VARCHAR(40) COLLATE utf8mb4_bin", _TEXTS),
    "s9": ("VARCHAR(40) COLLATE utf8mb4_0900_bin", _TEXTS),
    "sj": ("VARCHAR(40) COLLATE utf8mb4_ja_0900_as_cs", _TEXTS),
    "s3": ("VARCHAR(40) CHARACTER SET utf8mb3", _TEXTS.replace("'😀' 'a😀b' ", "")),
    "s16": ("VARCHAR(40) CHARACTER SET utf16", _TEXTS),
    "l1": ("VARCHAR(40) CHARACTER SET latin1", _LATIN),
    "lb": ("VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin", _LATIN),
    "a1": ("VARCHAR(40) CHARACTER SET ascii", _ASCII),
    "gb": ("VARCHAR(40) CHARACTER SET gbk", "'' 'a' 'A' '日本' '中' 'abc' 'ABC' '7'"),
    "c": (
        "CHAR(12)",
        _TEXTS.replace("'9223372036854775807' '18446744073709551616' ", "").replace("'2021-06-21\u00a012:34:56' ", ""),
    ),
    "t": ("TEXT", _TEXTS),
    "v": ("VARBINARY(20)", "'' 'abc' 'ABC' x'00ff' '7' '1' 'ä' x'e4'"),
    "bc": ("BINARY(4)", "'' 'abc' 'ABCD' x'00ff' '7'"),
    "bl": ("BLOB", "'' 'abc' x'00ff' '7'"),
    "e": ("ENUM('small','Medium','7','1','','Ä')", "'small' 'Medium' '7' '1' '' 'Ä'"),
    "m": ("SET('x','y','z','7','ß')", "'' 'x' 'x,z' 'y,7' '7' 'ß,x'"),
    "dt": ("DATETIME(6)", _MOMENTS),
    "d0": ("DATETIME", _MOMENTS),
    "da": ("DATE", "'2021-06-21' '0000-00-00' '1999-12-31' '2020-02-29' '2021-00-00' '9999-12-31' '0001-01-01'"),
    "ts": (
        "TIMESTAMP(3) NULL",
        "'2021-06-21T12:34:56.789' '2021-06-21' '0000-00-00' '1999-12-31T23:59:59' '2038-01-19T03:14:07'",
    ),
    "tm": ("TIME(2)", _TIMES),
    "t0": ("TIME", _TIMES),
    "j": (
        "JSON",
        """'1' '7' '0.1' '"abc"' '"7"' '[1]' '{}' 'null' 'true' '18446744073709551615' '""' '-5' '0' '1.0' '"Ä"' """
        """'{"a":\u00a01,"b":[2,"x"]}' '[1,[2,3],null]' '"2021-06-21"'""",
    ),
}
"""A space within a value is written as one that does not break."""
TEXTS: Final = (
    "s",
    "s2",
    "sas",
    "sai",
    "sg",
    "su",
    "s5",
    "sb",
    "s9",
    "sj",
    "s3",
    "s16",
    "l1",
    "lb",
    "a1",
    "gb",
    "c",
    "t",
)
CREATE: Final = (
    f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())}) "
    "DEFAULT COLLATE utf8mb4_0900_ai_ci"
)
_CONSTANTS: Final = (
    "0 1 2 3 7 -1 -5 0.1 7.0 7.5 2.5 -0.5 1e0 1e1 20210621 20210621123456 2021 21 99 123456 NULL NULL TRUE FALSE "
    "b'111' "
    "0x37 x'616263' 18446744073709551615 18446744073709551616 9223372036854775807 -9223372036854775808 "
    "9007199254740993 9999-12-31 1999 12 '0000-00-00' '2021-00-00' DATE'2021-06-21' TIME'12:34:56' "
    "TIMESTAMP'2021-06-21\u00a012:34:56.789' _latin1'abc' _utf8mb4'ä' _binary'abc' CAST('1'\u00a0AS\u00a0JSON) "
    "CAST('\"abc\"'\u00a0AS\u00a0JSON) '2021-06-21\u00a012:34:56.789' '2021-6-1' '12:34' '\u00a07' '12\u00a0' N'ß' "
    "99999999999999999999999999999999999999999 0.000000000000000000000000000000000000001 1e308 1e-320"
)
_SMALL: Final = "0 1 2 3 4 -1 -2 NULL 1.5 2.5 100 9223372036854775807 18446744073709551615 '2' i u8 i8 d"
_CASTS: Final = (
    "SIGNED UNSIGNED CHAR CHAR(2) DECIMAL(10,2) DECIMAL(5) DECIMAL(38,20) DATE DATETIME DATETIME(6) DATETIME(3) TIME "
    "TIME(6) BINARY BINARY(3) DOUBLE FLOAT JSON YEAR NCHAR CHAR\u00a0CHARACTER\u00a0SET\u00a0latin1 REAL"
)
_UNITS: Final = "MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR DAY_HOUR YEAR_MONTH MINUTE_SECOND"
_PARTS: Final = "YEAR MONTH DAY HOUR MINUTE SECOND MICROSECOND WEEK QUARTER DAY_HOUR YEAR_MONTH"
_COLLATIONS: Final = (
    "utf8mb4_bin utf8mb4_0900_ai_ci utf8mb4_0900_as_cs utf8mb4_0900_as_ci utf8mb4_general_ci utf8mb4_unicode_ci "
    "utf8mb4_0900_bin latin1_swedish_ci binary utf8mb4_de_pb_0900_ai_ci"
)
_PATTERNS: Final = "'%a%' 'a%' '%ß%' '_' '__' '%' '' '%\\_%' 'ä_' '%e' 'x\\%%' '%日%' 'A%C' '%7%' '%\u00ad%'"
_REGEXPS: Final = (
    "'a' '^a' 'c$' '[ab]' 'a.c' 'ä' 'ß' '(' '^$' '.' 'a|b' '\\\\d' '[[:alpha:]]+' 'A' 'é' '\\\\w+' '(?i)a' 'a{2}'"
)
_PATHS: Final = "'$' '$.a' '$.b' '$[0]' '$[1]' '$.b[1]' '$[*]' '$.x' '$[last]' '$.\"a\"'"

_OF_TEXTS: Final = """LOCATE({one}, {two}); LOCATE({one}, {two}, {small}); INSTR({one}, {two});
    POSITION({one} IN {two}); SUBSTRING_INDEX({one}, {two}, {small}); REPLACE({one}, {two}, {three});
    FIND_IN_SET({one}, {two}); FIELD({one}, {two}, {three}); STRCMP({one}, {two}); TRIM({side} {one} FROM {two});
    TRIM({one} FROM {two}); TRIM({one}); ELT({small}, {one}, {two}); INSERT({one}, {small}, {other}, {two});
    LEFT({one}, {small}); RIGHT({one}, {small}); SUBSTRING({one} FROM {small} FOR {other}); SUBSTR({one}, {small});
    LPAD({one}, {small}, {two}); RPAD({one}, {small}, {two}); REPEAT({one}, {small}); CONCAT({one}, {two});
    CONCAT_WS({one}, {two}, {three}); GREATEST({one}, {two}); LEAST({one}, {two}, {three}); UPPER({one}); LOWER({one});
    LENGTH({one}); CHAR_LENGTH({one}); REVERSE({one}); HEX({one}); ORD({one}); ASCII({one});
    ({one} COLLATE {collation});
    CONVERT({one} USING {charset}); BINARY {one}; MAKE_SET({small}, {one}, {two}); EXPORT_SET({small}, {one}, {two});
    QUOTE({one}); REGEXP_REPLACE({one}, {two}, {three}); REGEXP_INSTR({one}, {two}); SOUNDEX({one}); LCASE({one});
    JSON_EXTRACT(j, {path}); j->{path}; j->>{path}; LTRIM({one}); RTRIM({one}); SPACE({small});
    CHAR({small}, 65 USING utf8mb4); MID({one}, {small}, {other})"""
_OF_NUMBERS: Final = """(- {one}); (~ {one}); ABS({one}); ROUND({one}, {small}); FLOOR({one}); CEILING({one});
    TRUNCATE({one}, {small}); MOD({one}, {two}); ROUND({one}); SIGN({one}); POW({one}, {two}); SQRT({one})"""
_OF_ANY: Final = """IF({condition}, {one}, {two}); IFNULL({one}, {two}); COALESCE({one}, {two}, {three});
    NULLIF({one}, {two}); CASE {one} WHEN {two} THEN {three} ELSE {one} END; CASE WHEN {condition} THEN {one} END;
    GREATEST({one}, {two}); LEAST({one}, {two}, {three}); INTERVAL({one}, {two}, {three}); CAST({one} AS {type});
    CAST({two} AS {type})"""
_OF_MOMENTS: Final = """EXTRACT({part} FROM {one}); ({one} + INTERVAL {small} {unit}); DATEDIFF({one}, {two});
    DATE_SUB({one}, INTERVAL {small} {unit}); YEAR({one}); MONTH({one}); DAY({one}); HOUR({one}); MINUTE({one});
    SECOND({one}); MICROSECOND({one}); DATE({one}); TIME({one}); WEEK({one}); TIMESTAMP({one}); TO_DAYS({one});
    TIME_TO_SEC({one}); DAYOFWEEK({one}); QUARTER({one}); YEARWEEK({one}, {small}); TIMESTAMPDIFF({unit}, {one}, {two});
    DATE_FORMAT({one}, '%Y %m'); UNIX_TIMESTAMP({one}); TIMEDIFF({one}, {two}); LAST_DAY({one}); ADDTIME({one}, {two});
    DAYOFYEAR({one}); WEEKDAY({one}); TO_SECONDS({one}); STR_TO_DATE({one}, '%Y-%m-%d')"""
_CHARSETS: Final = "utf8mb4 latin1 binary utf8mb3"
_ALL: Final = tuple(sorted(name for name, found in FUNCTIONS.items() if not found.aggregate))
_OFTEN: Final = (
    "char_length concat concat_ws find_in_set hex left length locate lower ltrim replace reverse right rtrim strcmp "
    "substr trim upper abs ceiling floor pow round sign sqrt coalesce greatest if ifnull isnull least nullif "
    "dayofmonth dayofweek dayofyear hour microsecond minute month quarter second time_to_sec to_days to_seconds "
    "weekday year yearweek json_extract json_unquote datediff date time timestamp mod instr position week lpad rpad "
    "repeat date_format elt field insert substring_index"
)
_KNOWN: Final = tuple(_words(_OFTEN))
"""Functions that are asked for more often than others."""


CONSTANTS: Final = (*_words(_CONSTANTS), *_words(_TEXTS))


@dataclass
class Expressions:
    """Makes values, conditions and rows."""

    rng: random.Random

    def row(self, number: int) -> str:
        """Return a row's values as SQL."""
        values = (
            "NULL" if self.rng.random() < 0.06 else self.rng.choice(_words(texts)) for _, texts in COLUMNS.values()
        )
        return f"({number}, {', '.join(values)})"

    def expression(self) -> str:
        """Return a value or a condition."""
        return self.condition() if self.rng.random() < 0.4 else self.made(0)

    def _of(self, text: str) -> str:
        return self.rng.choice(_words(text))

    def text(self, depth: int) -> str:
        """Return what is most often a text."""
        kind = self.rng.random()
        if kind < 0.55:
            return self.rng.choice(TEXTS)
        if kind < 0.75:
            return self._of(_TEXTS)
        return self.value(depth)

    def value(self, depth: int = 0) -> str:
        """Return a column, a constant, or something made of them."""
        kind = self.rng.random()
        if kind < 0.5:
            return self.rng.choice(list(COLUMNS))
        if kind < 0.8 or depth > 2:
            return self.rng.choice(CONSTANTS)
        return self.made(depth + 1)

    def made(self, depth: int) -> str:
        """Return something made of values."""
        choices = (self._call, self._call, self._text, self._text, self._sum, self._choice, self._moment)
        return self.rng.choice(choices)(depth + 1)

    def _call(self, depth: int) -> str:
        name = self.rng.choice(_KNOWN) if self.rng.random() < 0.8 else self.rng.choice(_ALL)
        arguments = FUNCTIONS[name].arguments if name in FUNCTIONS else None
        count = self.rng.choice(list(arguments or range(1, 4))[:4])
        if name == "position":
            return f"POSITION({self.text(depth)} IN {self.text(depth)})"
        return f"{name.upper()}({', '.join(self.value(depth) for _ in range(count))})"

    def _made_of(self, forms: str, one: str, two: str, three: str) -> str:
        form = self.rng.choice([form.strip() for form in forms.split(";")])
        words = {"small": _SMALL, "other": _SMALL, "path": _PATHS, "collation": _COLLATIONS, "charset": _CHARSETS}
        words |= {"unit": _UNITS, "part": _PARTS, "type": _CASTS, "side": "LEADING TRAILING BOTH"}
        drawn = {name: self._of(texts) for name, texts in words.items()}
        return form.format(one=one, two=two, three=three, condition=self.condition(2), **drawn)

    def _text(self, depth: int) -> str:
        return self._made_of(_OF_TEXTS, self.text(depth), self.text(depth), self.text(depth))

    def _sum(self, depth: int) -> str:
        one, two = self.value(depth), self.value(depth)
        operator = self.rng.choice(("+", "-", "*", "/", "%", "DIV", "MOD", "&", "|", "^", "<<", ">>"))
        return f"({one} {operator} {two})" if self.rng.random() < 0.4 else self._made_of(_OF_NUMBERS, one, two, "1")

    def _choice(self, depth: int) -> str:
        return self._made_of(_OF_ANY, self.value(depth), self.value(depth), self.value(depth))

    def _moment(self, depth: int) -> str:
        one = self.rng.choice(("dt", "d0", "da", "ts", "tm", "t0", self.value(depth)))
        return self._made_of(_OF_MOMENTS, one, self.rng.choice(("dt", "da", "tm", self.value(depth))), "1")

    def condition(self, depth: int = 0) -> str:
        """Return a condition."""
        rng, kind, one, two = self.rng, self.rng.random(), self.value(depth), self.value(depth)
        no = rng.choice(("", "NOT "))
        if kind < 0.3:
            return f"{one} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {two}"
        if kind < 0.45:
            one, two = self.text(depth), self.text(depth)
            return f"{one} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {two}"
        if kind < 0.53:
            return f"{one} {no}IN ({', '.join((two, self.value(depth), self.text(depth))[: rng.randrange(1, 4)])})"
        if kind < 0.61:
            return f"{one} {no}BETWEEN {two} AND {self.value(depth)}"
        if kind < 0.68:
            return f"{self.text(depth)} {no}LIKE {rng.choice((one, self._of(_PATTERNS), self._of(_PATTERNS)))}"
        if kind < 0.7:
            return f"{self.text(depth)} LIKE {self._of(_PATTERNS)} ESCAPE '{rng.choice('|aä')}'"
        if kind < 0.74:
            return f"{self.text(depth)} {no}REGEXP {rng.choice((self.text(depth), self._of(_REGEXPS)))}"
        if kind < 0.79 or depth > 1:
            return f"{one} IS {no}{rng.choice(('NULL', 'TRUE', 'FALSE', 'UNKNOWN'))}"
        if kind < 0.82:
            return self.made(depth)
        if kind < 0.84:
            return f"{one} MEMBER OF (j)"
        if kind < 0.94:
            return f"({self.condition(depth + 1)}) {rng.choice(('AND', 'OR', 'XOR'))} ({self.condition(depth + 1)})"
        return f"NOT ({self.condition(depth + 1)})"
