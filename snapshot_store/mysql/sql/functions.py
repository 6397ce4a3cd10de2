"""The catalogue of MySQL's functions: names, numbers of arguments, kinds of results, and where they are allowed.

It has what MySQL defines; who computes a function has the implementation. Source: `sql/item_create.cc` of mysql-server
and refman, "Built-In Function and Operator Reference"; what 9.7 prints and refuses is recorded in
fixtures/ddl/expressions.json.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

Kind = str
"""int, decimal, double, text, date, datetime, time, json, null: what a value is before a column makes it its own."""

Influence = Literal["", "clock", "call", "session", "settings", "server"]
"""What a value depends on besides the arguments: nothing, the time of the statement, each call, the connection (user,
database, id), the session's time zone and locale, or the server's data and settings."""

MANY: Final = 99
"""The most arguments of a function whose number of arguments MySQL does not limit."""


@dataclass(frozen=True, slots=True)
class Function:
    """A built-in function, by the name that the server prints.

    `arguments`: how many it takes; None if the project does not use that. `gives`: the kind of its result; "" if it
    depends on the arguments, or the project does not use it. `allowed`: where in a table's definition it is allowed;
    "default" is in the expression of a DEFAULT only.
    """

    name: str
    arguments: range | None = None
    gives: Kind = ""
    aliases: tuple[str, ...] = ()
    depends: Influence = ""
    allowed: Literal["anywhere", "default", "nowhere"] = "anywhere"
    unsafe: bool = False
    """May return another value on a replica: refused in the default of a column that ALTER TABLE adds."""
    aggregate: bool = False
    """An aggregate or a window function."""
    boolean: bool = False
    """Returns a truth value: the server uses it as a condition without comparing it with 0."""
    lob: bool = False
    """Returns JSON or LONGTEXT, which cannot be part of a key."""
    has_from: bool = False
    """Its arguments may be separated by FROM."""
    same_charset: slice | None = None
    """The arguments that are converted to a common character set; a text result has it too."""

    @property
    def names(self) -> tuple[str, ...]:
        """The function's name and its aliases."""
        return (self.name, *self.aliases)

    def takes(self, count: int, most: int = MANY) -> bool:
        """Return whether it takes `count` arguments, and `count` is at most `most`."""
        return self.arguments is not None and count in self.arguments and count <= most


def _takes(least: int, most: int | None = None) -> range:
    return range(least, (most or least) + 1)


def _each(names: str, like: Function) -> Iterator[Function]:
    return (replace(like, name=name) for name in names.split())


_ALL: Final = slice(None)
_FIRST: Final = slice(1)
_ONE: Final = _takes(1)
_SOME: Final = _takes(1, MANY)

_CATALOGUE: Final = (
    # Texts
    Function("char_length", _ONE, "int", ("character_length",)),
    Function("concat", _SOME, "text", same_charset=_ALL),
    Function("concat_ws", _takes(2, MANY), "text", same_charset=_ALL),
    Function("elt", same_charset=slice(1, None)),
    Function("field", gives="int", same_charset=_ALL),
    Function("find_in_set", _takes(2), "int", same_charset=_ALL),
    Function("hex", _ONE, "text"),
    Function("insert", same_charset=slice(None, None, 3)),
    Function("left", _takes(2), "text", same_charset=_FIRST),
    Function("length", _ONE, "int", ("octet_length",)),
    Function("locate", _takes(2, 3), "int", same_charset=_ALL),
    Function("lower", _ONE, "text", ("lcase",), same_charset=_FIRST),
    Function("lpad", _takes(3), "text", same_charset=slice(None, None, 2)),
    Function("ltrim", _ONE, "text", same_charset=_FIRST),
    Function("position", has_from=True),
    Function("regexp_like", _takes(2, 3), "int", boolean=True, same_charset=_ALL),
    Function("repeat", _takes(2), "text", same_charset=_FIRST),
    Function("replace", _takes(3), "text", same_charset=_ALL),
    Function("reverse", _ONE, "text", same_charset=_FIRST),
    Function("right", _takes(2), "text", same_charset=_FIRST),
    Function("rpad", _takes(3), "text", same_charset=slice(None, None, 2)),
    Function("rtrim", _ONE, "text", same_charset=_FIRST),
    Function("strcmp", _takes(2), "int", boolean=True, same_charset=_ALL),
    Function("substr", _takes(2, 3), "text", ("substring", "mid"), has_from=True, same_charset=_FIRST),
    Function("substring_index", same_charset=_FIRST),
    Function("trim", _ONE, "text", has_from=True, same_charset=_FIRST),
    Function("upper", _ONE, "text", ("ucase",), same_charset=_FIRST),
    # Numbers
    Function("abs", _ONE),
    Function("atan", aliases=("atan2",)),
    Function("ceiling", _ONE, aliases=("ceil",)),
    Function("floor", _ONE),
    Function("pow", _takes(2), "double", ("power",)),
    Function("round", _takes(1, 2)),
    Function("sign", _ONE, "int"),
    Function("sqrt", _ONE, "double"),
    # Choices among values
    Function("coalesce", _SOME, same_charset=_ALL),
    Function("greatest", _takes(2, MANY), same_charset=_ALL),
    Function("if", _takes(3), same_charset=slice(1, None)),
    Function("ifnull", _takes(2), same_charset=_ALL),
    Function("isnull", _ONE, "int", boolean=True),
    Function("least", _takes(2, MANY), same_charset=_ALL),
    Function("nullif", _takes(2), same_charset=_ALL),
    # Dates and times
    Function("date_format", _takes(2), "text", depends="settings"),
    Function("datediff", _takes(2), "int"),
    Function("dayofmonth", _ONE, "int", ("day",)),
    Function("extract", has_from=True),
    *_each("dayname from_unixtime monthname", Function("", depends="settings")),
    *_each("dayofweek dayofyear hour microsecond minute month quarter second", Function("", _ONE, "int")),
    *_each("time_to_sec to_days to_seconds weekday year", Function("", _ONE, "int")),
    Function("yearweek", _takes(1, 2), "int"),
    # The time of the statement; SYSDATE() is the time of the call
    Function("curdate", range(1), "date", ("current_date",), "clock", "default"),
    Function("curtime", range(2), "time", ("current_time",), "clock", "default"),
    Function("now", range(2), "datetime", ("current_timestamp", "localtime", "localtimestamp"), "clock", "default"),
    Function("sysdate", range(2), "datetime", (), "call", "default", unsafe=True),
    Function("unix_timestamp", range(2), "int", (), "clock", "default"),
    Function("utc_date", range(1), "date", (), "clock", "default"),
    Function("utc_time", range(2), "time", (), "clock", "default"),
    Function("utc_timestamp", range(2), "datetime", (), "clock", "default"),
    # JSON; `function` recognizes its other functions by their prefix
    Function("json_array", range(MANY + 1), "json", lob=True),
    Function("json_extract", _takes(2, MANY), "json", lob=True),
    Function("json_keys", lob=True),
    Function("json_object", range(MANY + 1), "json", lob=True),
    Function("json_set", lob=True),
    Function("json_unquote", _ONE, "text", lob=True),
    # The connection, random values, the server
    Function("current_user", depends="session", allowed="default", unsafe=True),
    Function("database", aliases=("schema",), depends="session", allowed="default"),
    Function("user", None, "", ("session_user", "system_user"), "session", "default", unsafe=True),
    *_each("connection_id current_role statement_digest", Function("", depends="session", allowed="default")),
    *_each("rand random_bytes uuid uuid_short", Function("", depends="call", allowed="default", unsafe=True)),
    *_each("roles_graphml statement_digest_text", Function("", depends="server", allowed="default")),
    # Refused in a table's definition
    *_each("found_rows last_insert_id row_count version", Function("", depends="session", allowed="nowhere")),
    *_each(
        "get_lock icu_version is_free_lock is_used_lock load_file release_all_locks release_lock "
        "wait_for_executed_gtid_set",
        Function("", depends="server", allowed="nowhere"),
    ),
    Function("source_pos_wait", aliases=("master_pos_wait",), depends="server", allowed="nowhere"),
    Function("sha1", aliases=("sha",), allowed="nowhere"),
    *_each("benchmark match md5 name_const sleep updatexml values", Function("", allowed="nowhere")),
    *_each(
        "avg bit_and bit_or bit_xor count group_concat grouping json_arrayagg json_objectagg max min st_collect std "
        "stddev stddev_pop stddev_samp sum var_pop var_samp variance cume_dist dense_rank first_value lag "
        "last_value lead nth_value ntile percent_rank rank row_number",
        Function("", aggregate=True, allowed="nowhere"),
    ),
    # Conditions
    *_each(
        "json_contains json_contains_path json_overlaps json_schema_valid json_valid st_contains st_crosses "
        "st_disjoint st_equals st_intersects st_overlaps st_touches st_within mbrcontains mbrcoveredby mbrcovers "
        "mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin is_ipv4 is_ipv6 is_ipv4_compat "
        "is_ipv4_mapped is_uuid gtid_subset st_isvalid st_isempty st_issimple st_isclosed",
        Function("", boolean=True),
    ),
    # Others with aliases
    Function("from_vector", aliases=("vector_to_string",)),
    Function("geomcollection", aliases=("geometrycollection",)),
    Function("st_astext", aliases=("st_aswkt",)),
    Function("st_numinteriorrings", aliases=("st_numinteriorring",)),
    Function("to_vector", aliases=("string_to_vector",)),
    # Others
    *_each(
        "acos adddate addtime aes_decrypt aes_encrypt any_value ascii asin bin bin_to_uuid bit_count bit_length cast "
        "char charset coercibility collation compress conv convert convert_tz cos cot crc32 date date_add date_sub "
        "default degrees exp export_set extractvalue format format_bytes format_pico_time from_base64 from_days "
        "get_format gtid_subtract inet6_aton inet6_ntoa inet_aton inet_ntoa instr interval last_day linestring ln log "
        "log10 log2 make_set makedate maketime mod multilinestring multipoint multipolygon oct ord period_add "
        "period_diff pi point polygon ps_current_thread_id ps_thread_id quote radians regexp_instr regexp_replace "
        "regexp_substr sec_to_time sha2 sin soundex space str_to_date subdate subtime tan time time_format timediff "
        "timestamp timestampadd timestampdiff to_base64 truncate uncompress uncompressed_length unhex uuid_to_bin "
        "validate_password_strength vector_dim week weekofyear weight_string",
        Function(""),
    ),
)
FUNCTIONS: Final = {function.name: function for function in _CATALOGUE}
"""By name, in lower case. `function` finds also those that are known by their prefix only."""

CANONICAL: Final = {alias: function.name for function in _CATALOGUE for alias in function.aliases}
"""Names that the server prints as another one."""

WITHOUT_PARENTHESES: Final = frozenset(
    (
        *("current_date", "current_time", "current_timestamp", "current_user", "localtime", "localtimestamp"),
        *("utc_date", "utc_time", "utc_timestamp"),
    )
)
"""Names that may be called without parentheses."""


NATIVE_PREFIXES: Final = ("json_", "st_", "mbr")
"""Functions whose names begin so are built in."""


def function(name: str) -> Function:
    """Return a function by its name or an alias, in lower case; one that is not built in is allowed nowhere."""
    name = CANONICAL.get(name, name)
    native = name.startswith(NATIVE_PREFIXES)
    return FUNCTIONS.get(name) or Function(name, allowed="anywhere" if native else "nowhere")
