"""What DuckDB says of a question about definitions, as MySQL would say it: none of its own words reach a client."""

import logging
import re
from typing import Final

from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.values.duckdb.stopped import OUT_OF_RANGE, why_stopped

_LOG = logging.getLogger(__name__)
_WORDS: Final = tuple(
    (re.compile(pattern), code, message)
    for pattern, code, message in (
        (
            r'Referenced column "(.*)" not found|column "(.*)" must appear in the GROUP BY clause or be used',
            ErrorCode.ER_BAD_FIELD_ERROR,
            "Unknown column '{}' in 'field list'",
        ),
        (r'Referenced table "(.*)" not found', ErrorCode.ER_BAD_FIELD_ERROR, "Unknown table '{}' before a column"),
        (
            r'Ambiguous reference to column name "(.*?)"',
            ErrorCode.ER_NON_UNIQ_ERROR,
            "Column '{}' in field list is ambiguous",
        ),
        (
            r'column "(.*)" must appear in the GROUP BY clause',
            ErrorCode.ER_WRONG_FIELD_WITH_GROUP,
            "Expression of SELECT list is not in GROUP BY clause and contains nonaggregated column '{}' which is not "
            "functionally dependent on columns in GROUP BY clause; this is incompatible with "
            "sql_mode=only_full_group_by",
        ),
        (r"cannot contain aggregates", ErrorCode.ER_INVALID_GROUP_FUNC_USE, "Invalid use of group function"),
        (r"More than one row returned by a sub", ErrorCode.ER_SUBQUERY_NO_1_ROW, "Subquery returns more than 1 row"),
        (r"ORDER term out of range", ErrorCode.ER_BAD_FIELD_ERROR, "Unknown column in 'order clause'"),
        (r"stopped: ", ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve does not know the value of an expression"),
        (r"Out of Memory Error", ErrorCode.ER_OUT_OF_RESOURCES, "Out of memory: binlog-merge serve bounds a question"),
        (
            r"Conversion Error|No function matches|Cannot (?:mix|compare) values",
            ErrorCode.ER_NOT_SUPPORTED_YET,
            "binlog-merge serve takes no text for a number here: write texts beside texts, numbers beside numbers",
        ),
        (r"Out of Range Error", ErrorCode.ER_DATA_OUT_OF_RANGE, "BIGINT value is out of range"),
    )
)
"""What is found in DuckDB's text, and the error of which it is the cause; the first that is found."""
_OTHER: Final = "binlog-merge serve does not answer this SELECT"


def in_mysqls_words(error: Exception) -> Refused:
    """Return the error that a client gets for one of DuckDB's; what is not known goes to the operator's log."""
    stopped = why_stopped(error)
    if stopped is not None and stopped.endswith(OUT_OF_RANGE):
        return Refused(ErrorCode.ER_DATA_OUT_OF_RANGE, stopped)
    text = (str(error).splitlines() or [""])[0]
    for pattern, code, message in _WORDS:
        if found := pattern.search(text):
            named = next((group for group in found.groups() if group is not None), "")
            return Refused(code, message.format(named[:64]))
    _LOG.warning("%s: %s", _OTHER, text[:1000])
    return Refused(ErrorCode.ER_NOT_SUPPORTED_YET, _OTHER)
