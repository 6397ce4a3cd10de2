"""What a log's schema store has nothing about: triggers, views, routines, events. Clients ask all the same.

The columns are those of MySQL 9.7.
"""

from typing import Final

from binlog_merge.serve.relation import Relation, columns

EVENT_COLUMNS: Final = columns(
    "Db Name Definer Time~zone Type Execute~at:time Interval~value Interval~field:char Starts:time Ends:time "
    "Status Originator:int character_set_client collation_connection Database~Collation"
)
ROUTINE_COLUMNS: Final = columns(
    "Db Name Type:char Language Definer Modified:stamp Created:stamp Security_type:char Comment:text "
    "character_set_client collation_connection Database~Collation"
)
_TABLES: Final = {
    "TRIGGERS": (
        "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION:char EVENT_OBJECT_CATALOG "
        "EVENT_OBJECT_SCHEMA EVENT_OBJECT_TABLE ACTION_ORDER:int ACTION_CONDITION:null ACTION_STATEMENT:text "
        "ACTION_ORIENTATION ACTION_TIMING:char ACTION_REFERENCE_OLD_TABLE:null ACTION_REFERENCE_NEW_TABLE:null "
        "ACTION_REFERENCE_OLD_ROW ACTION_REFERENCE_NEW_ROW CREATED:stamp SQL_MODE:char DEFINER "
        "CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION"
    ),
    "VIEWS": (
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION:text CHECK_OPTION:char IS_UPDATABLE:char DEFINER "
        "SECURITY_TYPE CHARACTER_SET_CLIENT COLLATION_CONNECTION"
    ),
    "ROUTINES": (
        "SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE:char DATA_TYPE:long "
        "CHARACTER_MAXIMUM_LENGTH:big CHARACTER_OCTET_LENGTH:big NUMERIC_PRECISION:int NUMERIC_SCALE:int "
        "DATETIME_PRECISION:int CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER:text ROUTINE_BODY "
        "ROUTINE_DEFINITION:text EXTERNAL_NAME:null EXTERNAL_LANGUAGE PARAMETER_STYLE IS_DETERMINISTIC "
        "SQL_DATA_ACCESS:char SQL_PATH:null SECURITY_TYPE:char CREATED:stamp LAST_ALTERED:stamp SQL_MODE:char "
        "ROUTINE_COMMENT:text DEFINER CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION"
    ),
    "EVENTS": (
        "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER TIME_ZONE EVENT_BODY EVENT_DEFINITION:text EVENT_TYPE "
        "EXECUTE_AT:time INTERVAL_VALUE INTERVAL_FIELD:char SQL_MODE:char STARTS:time ENDS:time STATUS "
        "ON_COMPLETION CREATED:stamp LAST_ALTERED:stamp LAST_EXECUTED:time EVENT_COMMENT ORIGINATOR:int "
        "CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION"
    ),
    "INNODB_CMP": (
        "page_size:int compress_ops:int compress_ops_ok:int compress_time:int uncompress_ops:int uncompress_time:int"
    ),
    "INNODB_CMPMEM": (
        "page_size:int buffer_pool_instance:int pages_used:int pages_free:int relocation_ops:big relocation_time:int"
    ),
}
EMPTY: Final = {name: Relation(columns(text), lambda definitions: iter(())) for name, text in _TABLES.items()}
