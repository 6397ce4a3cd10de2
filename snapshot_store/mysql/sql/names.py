"""Names and strings in SQL: how they are quoted, and which words are reserved.

Source: information_schema.KEYWORDS of a 9.7 server, and for older versions refman, "Keywords and Reserved Words".
"""

from snapshot_store.mysql.sql.session import DdlSession

_ESCAPES = {"\0": r"\0", "\n": r"\n", "\r": r"\r", "\\": r"\\"}
_IN_DEFINITIONS = str.maketrans({**_ESCAPES, "'": "''"})
_IN_EXPRESSIONS = str.maketrans({**_ESCAPES, "'": r"\'", "\x1a": r"\Z"})


def quote_name(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_plainly(value: str) -> str:
    """Return a string literal in which all but a quote stands for itself: for DuckDB, and NO_BACKSLASH_ESCAPES."""
    return "'" + value.replace("'", "''") + "'"


def quote_string(value: str, expression: bool = False) -> str:
    """Return a string literal as a server writes it in a definition or, with `expression`, in an expression.

    A definition doubles the quote (`append_unescaped`), an expression has a backslash before it.
    """
    return f"'{value.translate(_IN_EXPRESSIONS if expression else _IN_DEFINITIONS)}'"


def folded(name: str) -> str:
    """Return a name of a table or database as a server with lower_case_table_names=1 stores it: in lower case.

    A server folds characters one by one; one whose lower case is several characters stays.
    """
    return "".join(low if len(low := char.lower()) == 1 else char for char in name)


_WORDS = (
    "ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB BOTH BY CALL "
    "CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT CONTINUE CONVERT CREATE CROSS "
    "CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DATABASES DAY_HOUR DAY_MICROSECOND "
    "DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE DEFAULT DELAYED DELETE DESC DESCRIBE DETERMINISTIC DISTINCT "
    "DISTINCTROW DIV DOUBLE DROP DUAL EACH ELSE ELSEIF ENCLOSED ESCAPED EXISTS EXIT EXPLAIN FALSE FETCH FLOAT "
    "FLOAT4 FLOAT8 FOR FORCE FOREIGN FROM FULLTEXT GENERATED GET GRANT GROUP HAVING HIGH_PRIORITY "
    "HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE INSERT INT INT1 "
    "INT2 INT3 INT4 INT8 INTEGER INTERVAL INTO IO_AFTER_GTIDS IO_BEFORE_GTIDS IS ITERATE JOIN KEY KEYS KILL "
    "LEADING LEAVE LEFT LIKE LIMIT LINEAR LINES LOAD LOCALTIME LOCALTIMESTAMP LOCK LONG LONGBLOB LONGTEXT LOOP "
    "LOW_PRIORITY MATCH MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD "
    "MODIFIES NATURAL NO_WRITE_TO_BINLOG NOT NULL NUMERIC ON OPTIMIZE OPTIMIZER_COSTS OPTION OPTIONALLY OR ORDER "
    "OUT OUTER OUTFILE PARTITION PRECISION PRIMARY PROCEDURE PURGE RANGE READ READ_WRITE READS REAL REFERENCES "
    "REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE RESIGNAL RESTRICT RETURN REVOKE RIGHT RLIKE SCHEMA SCHEMAS "
    "SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET SHOW SIGNAL SMALLINT SPATIAL SPECIFIC SQL SQL_BIG_RESULT "
    "SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SQLEXCEPTION SQLSTATE SQLWARNING SSL STARTING STORED STRAIGHT_JOIN "
    "TABLE TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK UNSIGNED "
    "UPDATE USAGE USE USING UTC_DATE UTC_TIME UTC_TIMESTAMP VALUES VARBINARY VARCHAR VARCHARACTER VARYING VIRTUAL "
    "WHEN WHERE WHILE WITH WRITE XOR YEAR_MONTH ZEROFILL "
)
_ALWAYS = frozenset(_WORDS.split())
_NEW_WORDS = (
    "CUBE CUME_DIST DENSE_RANK EMPTY EXCEPT FIRST_VALUE FUNCTION GROUPING GROUPS INTERSECT JSON_TABLE LAG "
    "LAST_VALUE LATERAL LEAD LIBRARY NTH_VALUE NTILE OF OVER PERCENT_RANK QUALIFY RANK RECURSIVE ROW ROWS "
    "ROW_NUMBER SYSTEM TABLESAMPLE WINDOW EXTERNAL "
)
_SINCE_8_0 = frozenset(_NEW_WORDS.split())


def is_reserved(word: str, session: DdlSession) -> bool:
    """Return whether an unquoted word is reserved in the session's server version."""
    upper = word.upper()
    return upper in _ALWAYS or (upper in _SINCE_8_0 and session.server_version >= 80000)
