"""MySQL's functions: what the server calls them when it prints an expression, and where they may not stand.

Source: `sql/item_create.cc` of mysql-server and refman, "Built-In Function and Operator Reference"; what 9.7 prints and
refuses is recorded in fixtures/ddl/expressions.json.
"""

CANONICAL = {
    "atan2": "atan",
    "ceil": "ceiling",
    "character_length": "char_length",
    "current_date": "curdate",
    "current_time": "curtime",
    "current_timestamp": "now",
    "day": "dayofmonth",
    "lcase": "lower",
    "localtime": "now",
    "localtimestamp": "now",
    "master_pos_wait": "source_pos_wait",
    "mid": "substr",
    "octet_length": "length",
    "power": "pow",
    "schema": "database",
    "session_user": "user",
    "sha": "sha1",
    "geometrycollection": "geomcollection",
    "st_aswkt": "st_astext",
    "st_numinteriorring": "st_numinteriorrings",
    "string_to_vector": "to_vector",
    "substring": "substr",
    "system_user": "user",
    "ucase": "upper",
    "vector_to_string": "from_vector",
}
"""Names that the server prints as another one."""

_WITHOUT_PARENTHESES_NAMES = (
    "current_date current_time current_timestamp current_user localtime localtimestamp utc_date utc_time utc_timestamp"
)
WITHOUT_PARENTHESES = frozenset(_WITHOUT_PARENTHESES_NAMES.split())
"""May be called without parentheses."""

_AGGREGATES_NAMES = (
    "avg bit_and bit_or bit_xor count group_concat grouping json_arrayagg json_objectagg max min st_collect std "
    "stddev stddev_pop stddev_samp sum var_pop var_samp variance cume_dist dense_rank first_value lag "
    "last_value lead nth_value ntile percent_rank rank row_number"
)
AGGREGATES = frozenset(_AGGREGATES_NAMES.split())
"""Aggregate and window functions."""

_NEVER_NAMES = (
    "benchmark found_rows get_lock icu_version is_free_lock is_used_lock last_insert_id load_file match "
    "name_const release_all_locks release_lock row_count sleep source_pos_wait updatexml values version "
    "wait_for_executed_gtid_set md5 sha1"
)
NEVER = frozenset(_NEVER_NAMES.split())
"""Refused in generated columns, defaults, checks and functional keys alike."""

_CHANGING_NAMES = (
    "connection_id curdate current_role current_user curtime database now rand random_bytes roles_graphml "
    "statement_digest statement_digest_text sysdate unix_timestamp user utc_date utc_time utc_timestamp uuid "
    "uuid_short"
)
CHANGING = frozenset(_CHANGING_NAMES.split())
"""Give another result each time: allowed in a default only."""

_UNSAFE_NAMES = "current_user rand random_bytes sysdate user uuid uuid_short"
UNSAFE = frozenset(_UNSAFE_NAMES.split())
"""May give another result on a replica: refused in the default of a column that ALTER TABLE adds."""

_BOOLEAN_NAMES = (
    "isnull json_contains json_contains_path json_overlaps json_schema_valid json_valid regexp_like st_contains "
    "st_crosses st_disjoint st_equals st_intersects st_overlaps st_touches st_within mbrcontains mbrcoveredby "
    "mbrcovers mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin is_ipv4 is_ipv6 "
    "is_ipv4_compat is_ipv4_mapped is_uuid gtid_subset st_isvalid st_isempty st_issimple st_isclosed strcmp"
)
BOOLEAN = frozenset(_BOOLEAN_NAMES.split())
"""Give a truth value: the server takes their result for a condition as it stands."""

_PLAIN_NAMES = (
    "abs acos adddate addtime aes_decrypt aes_encrypt any_value ascii asin atan bin bin_to_uuid bit_count "
    "bit_length ceiling char char_length charset coalesce coercibility collation compress concat concat_ws conv "
    "convert_tz cos cot crc32 date date_add date_format date_sub datediff dayname dayofmonth dayofweek "
    "dayofyear default degrees elt exp export_set extract extractvalue field find_in_set floor format "
    "format_bytes format_pico_time from_base64 from_days from_unixtime from_vector geomcollection "
    "geometrycollection get_format greatest gtid_subset gtid_subtract hex hour if ifnull inet6_aton inet6_ntoa "
    "inet_aton inet_ntoa insert instr interval last_day least left length linestring ln locate log log10 log2 "
    "lower lpad ltrim make_set makedate maketime microsecond minute mod month monthname multilinestring "
    "multipoint multipolygon nullif oct ord period_add period_diff pi point polygon position pow "
    "ps_current_thread_id ps_thread_id quarter quote radians regexp_instr regexp_replace regexp_substr repeat "
    "replace reverse right round rpad rtrim sec_to_time second sha2 sign sin soundex space sqrt strcmp "
    "str_to_date subdate substr substring_index subtime tan time time_format time_to_sec timediff timestamp "
    "timestampadd timestampdiff to_base64 to_days to_seconds to_vector trim truncate uncompress "
    "uncompressed_length unhex upper uuid_to_bin validate_password_strength vector_dim week "
    "weekday weekofyear weight_string year yearweek cast convert"
)
_PLAIN = frozenset(_PLAIN_NAMES.split())


def is_native(name: str) -> bool:
    """Tell whether a canonical name is that of a built-in function; others are stored or loadable ones."""
    known = _PLAIN | NEVER | CHANGING | BOOLEAN | AGGREGATES
    return name in known or name.startswith(("json_", "st_", "mbr"))
