"""Random expressions over all functions, types and collations: a server's values, or refused.

Long: `SOAK_SEED=n EXPRESSIONS=20000 python -m pytest -s -m soak tests/values/test_expressions.py`.
"""

import os
import random
from collections.abc import Iterator

import pytest

from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer
from tests.values.attack import Attack
from tests.values.random_expressions import Expressions

pytestmark = pytest.mark.mysql
FOUND = (
    "TRIM(BOTH 'a' FROM s)", "TRIM(LEADING s3 FROM s)", "TRIM(TRAILING 'ss' FROM su)", "TRIM('' FROM s)",
    "TRIM('aa' FROM 'aaa')", "TRIM(NULL FROM s)", "TRIM(BOTH '.' FROM '..a.b\n.')", "TRIM('A' FROM s)",
    "TRIM(7 FROM i64)", "TRIM(l1 FROM s)", "TRIM('日' FROM l1)", "TRIM(TRAILING '\n' FROM 'a\n\n')",
    "TRIM(x'00' FROM bl)",
    "LOCATE('a', s)", "LOCATE('ss', su)", "INSTR(sas, 'A')", "POSITION('e' IN l1)", "LOCATE(s, a1, 2)", "i64 + 1",
    "u64 - 1", "i64 * 2", "-i64", "ABS(i64)", "18446744073709551615 + u8", "9223372036854775807 + i8", "d / 3",
    "i64 / d", "7 % d", "i64 % d38", "UPPER(s)", "LOWER(l1)", "REVERSE(s)", "HEX(l1)", "LENGTH(s16)", "BINARY l1",
    "gb <> '😀'", "l1 LIKE '%日%'", "a1 < 'ä'", "IF(i8, '😀', REPLACE(l1, s3, sai))",
    "s COLLATE latin1_swedish_ci", "sb <> s9",
    "j->>'$'", "j->>'$[1]'", "JSON_UNQUOTE(i8)", "CAST(j->>'$' AS CHAR(2))", "CAST(d AS UNSIGNED)",
    "CAST(s AS SIGNED)", "CAST('18446744073709551616' AS SIGNED)", "CAST(s AS BINARY(3))", "DATE(da)", "~tm", "~d38",
    "CONCAT(z, '')", "s REGEXP ''", "s9 REGEXP '[[:alpha:]]+'", "EXTRACT(SECOND FROM tm)", "SUBSTR(s, 1, u8)",
    "SUBSTR(s, 1, NULL)", "dt - INTERVAL 2 MICROSECOND", "dt + INTERVAL 2 MICROSECOND", "da - INTERVAL 4000 YEAR",
    "TIME_TO_SEC(d38)", "CASE t0 WHEN d38 THEN 1 END",
    "u8 BETWEEN i8 AND 7", "FIND_IN_SET(l1, c)", "v <=> lb", "i8 DIV du",
    "ROUND(g, 1)", "s9 <> j", "g NOT IN (u64)",
    "IF(i8, du, 18446744073709551616)", "NULLIF('[1, 2]', u64)", "STRCMP(2021, '😀')", "POW(g, g)", "g * g",
    "b64 >= '18446744073709551616'", "i64 = '9007199254740993'", "'18446744073709551616' <> (~ z)", "ROUND(g)",
    "ROUND(i, -1)", "GREATEST(d, d38)", "-0.5 <> t0", "CAST(7.5 AS TIME)", "CAST(da AS JSON)", "CAST(g AS FLOAT)",
    "STRCMP(lb, 'œuvre')", "l1 > 'œ'", "i8 IN (b64, b, '  7')", "i8 IN (~z, 3)", "x'ff' < s", "_binary'œ' = l1",
    "lb LIKE '_' ESCAPE 'ä'", "u64 * 18446744073709551615", "CAST(u64 AS DECIMAL(38,20))", "u64 * i64",
    "CASE i8 WHEN b64 THEN 1 ELSE 0 END", "0.000000000000000000000000000000000000001 - 3",
    "COALESCE(ABS(NULL), bc)", "NULL COLLATE utf8mb4_0900_as_ci", "du > IF(i8, 'Σς', da)",
    "bl > (u8 COLLATE utf8mb4_0900_as_cs)", "NULL NOT BETWEEN a1 AND 'Äpfel'", "NULL BETWEEN s AND 'a'",
    "WEEKDAY(da - INTERVAL 1 DAY)", "DATEDIFF(dt, d0 + INTERVAL 1 DAY)", "i64 - d0", "u64 - dt > 1", "d0 + 0 > 1",
    "POW(i64, 9007199254740993) % 'n'", "g * g / 0", "(i64 * 4) DIV 0", "(i64 * 4) % (1 - 1)", "i64 * 4 + NULL",
    "(i64 * 4) = NULL", "(i64 * 4 = 1) AND FALSE", "(i64 * 4 = 1) OR TRUE", "LEFT(i64 * 4, NULL)",
    "(i64 * 4) > 1 % 0", "IF(i64 * 4, NULL, NULL)", "REPLACE(i64 * 4, NULL, 'a')", "i64 * 4 BETWEEN NULL AND NULL",
    "CAST(0 AS DATE)", "DATE(00000000)", "CHAR_LENGTH(IF(sb, 123456, d))", "IF(i8, 5, d) LIKE '5'",
    "CASE WHEN i8 THEN d ELSE 12 END LIKE '12'", "BINARY IF(i8, TRUE, 5.25)", "CAST(IF(i8, 5, d) AS JSON)",
    "NULLIF(99, y)", "NULLIF(y, 99)", "NULLIF(y, 2021)", "CASE y WHEN 99 THEN 1 ELSE 0 END",
    "CASE ROUND(i64, 2) WHEN 18446744073709551615 THEN 1 ELSE 0 END", "CASE u64 WHEN -1 THEN 1 ELSE 0 END",
    "CASE -1 WHEN 18446744073709551615 THEN 1 ELSE 0 END", "i64 IN (18446744073709551615, 3)",
    "ROUND(e, -1)", "CONCAT(- m)", "CAST('2021-06-21 12:34:56.789' AS DATETIME)", "CAST(dt AS DATETIME(3))",
    "CAST(tm AS TIME(1))", "CAST(TIME'12:34:56.7' AS TIME)", "NULL REGEXP s5", "NULL REGEXP '('", "j = ISNULL(s)",
    "j >= STRCMP(lb, sb)", "CAST(STRCMP(s, s2) AS JSON)", "REPLACE(NULL, s, sas COLLATE utf8mb4_bin)",
    "CAST(ROUND(0x37) AS JSON)", "- (m COLLATE utf8mb4_0900_bin)", "CONVERT(e USING utf8mb4) + 0",
    "CAST(ROUND(da) AS JSON)", "FIND_IN_SET('ß', m)", "FIND_IN_SET('X', m)", "FIND_IN_SET(s9, m)",
    "b64 IN (du, -9223372036854775808)", "CONCAT(LOCATE('abc', gb), '😀')", "REGEXP_LIKE(gb, 'a') LIKE '😀'",
    "'0.1' <=> t0", "t0 = '12:34:56.78'", "tm = '12:34:56.78'", "TIME(tm) > '12:34:56.785'",
    "FIND_IN_SET('7', m)", "TIMESTAMP(NULL) = 'ø'", "CAST(m AS CHAR) + 0",
    "FLOOR('1e999')", "dt / 7", "COALESCE(1, d38) / 7", "(IF(i8, 5, d38) + 1) / 7", "(d38 / 3) / 7",
    "~ CEILING(18446744073709551616)", "~ CEILING(d38)", "FLOOR(d38) & i64", "CEILING(d65) | 1", "~ u64", "~ b64",
    "~ 18446744073709551615", "FLOOR(du) ^ u64", "~ CEILING(10000000000000000000.5)", "~ - CEILING(d38)",
    "(i64 & 4) AND 1 = 1",
    "da >= '2021-02-31'", "ts >= '0000-00-00'", "da = 20210621", "'7' > CEILING(y)", "REPLACE(c, s9, s2) < s2",
    "l1 NOT IN (1999, sg, sai)", "l1 IN (sg, 1999)", "da IN ('2021-06-21', s)",
)  # fmt: skip
"""What has been answered otherwise than by a server, and what is beside it."""
COMPUTED = (
    "YEAR(0)", "TO_DAYS(da) << i8", "z * t0", "FLOOR(IF(b, u8, DATE'2021-06-21'))", "ROUND(du, 9223372036854775807)",
    "CAST(d38 AS DATE)", "CAST(da AS SIGNED)", "y NOT BETWEEN -5 AND 1", "CAST(f AS JSON)",
    "dt + INTERVAL 2.5 SECOND", "- d38", "d38 + d38",
    "BINARY s16", "da + INTERVAL 3 MONTH", "IF(s5, 'Σς', a1)", "1999 NOT BETWEEN 2000 AND g", "CONCAT_WS(i, z)",
    "LPAD('7abc', u8, sas)", "DATE_SUB(ts, INTERVAL 100 MINUTE)", "DATE_SUB(dt, INTERVAL 4 DAY)", "IF('0', s2, '7')",
    "d0 + INTERVAL 9223372036854775807 SECOND", "RPAD(lb, i, sai)", "REPEAT('', 9223372036854775807)", "LEFT(s, s2)",
    "CAST('1e1' AS UNSIGNED)", "NULLIF(l1, 'abc')", "CAST(da AS REAL)", "LOWER(y)", "DATE_FORMAT(s, '%Y')",
    "CASE i8 WHEN ~b64 THEN 1 ELSE 0 END", "i8 IN (i64, u64)", "CASE i8 WHEN i64 THEN 1 WHEN u64 THEN 2 END",
    "CAST(99999999999999999999999999999999999999999 AS JSON)", "18446744073709551616 + u8",
    "DATE_FORMAT(ts, gb)",
    "DATE_FORMAT(dt, '')", "DATE_FORMAT(da, s9)", "CAST(d AS JSON)", "JSON_ARRAY(CAST(7.0 AS JSON), CAST(d AS JSON))",
    "dt + INTERVAL 2 MICROSECOND", "CAST('été' AS CHAR CHARACTER SET latin1)", "ROUND(d, NULL)", "s + INTERVAL 1 DAY",
    "UPPER(_binary'abc')", "LOWER(CONCAT(_binary'ABC', z))", "UPPER(ROUND(d38))", "CONCAT(d38 * 0)", "ROUND(d38)",
    "LOWER(ROUND(d38, 5) * 1.0)", "UPPER(BINARY s)", "CHAR_LENGTH(BINARY s)", "REVERSE(CAST(s AS BINARY))",
    "LEFT(BINARY s, 1)", "LPAD(BINARY s, 3, 'x')", "LOWER(COALESCE(d, d38))", "CONCAT(IF(i8, 1.5, d) + 1)",
    "d65 * d38", "CONCAT(ROUND(IF(i8, 1.5, d), 2))", "CONCAT(IF(i8, z, 5))", "CONCAT(NULLIF(y, 0))",
)  # fmt: skip
"""The same of what is computed row by row."""


@pytest.fixture
def attack(mysql_server: MySqlServer) -> Iterator[Attack]:
    made = Attack(mysql_server, Expressions(random.Random(seed_of_search())), 40)
    yield made
    made.close()


def test_values_are_those_of_a_server(attack: Attack) -> None:
    made = [attack.made.expression() for _ in range(effort(200, 3000))]
    different = differences(attack, [*FOUND, *COMPUTED, *made])
    assert not different, different
    assert attack.equal > len(made) // 4


@pytest.mark.soak
def test_many_values_are_those_of_a_server(attack: Attack) -> None:
    left, found = int(os.environ.get("EXPRESSIONS", "20000")), 0
    while left > 0:
        text = differences(attack, [attack.made.expression() for _ in range(200)])
        found += bool(text)
        left -= 200
        print(text, left, attack.equal, attack.refused, flush=True)
    assert not found


def differences(attack: Attack, texts: list[str]) -> str:
    """Return the expressions that either evaluator gives other values than a server."""
    return "\n".join(map(str, (*attack.differences(texts), *attack.computed_otherwise(texts))))
