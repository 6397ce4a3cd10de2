"""The EXT column of a DDL marker: JSON that the cluster adds to the statement (polardbx-sql `DDLExtInfo`)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Extension:
    """EXT as typed values. Fields that it lacks are None or False; `values` has everything, also unknown fields."""

    task_id: int | None = None
    task_sub_seq: int | None = None
    create_sql_for_physical: str | None = None
    server_id: int | None = None
    sql_mode: str | None = None
    use_omc: bool = False
    group_name: str | None = None
    is_gsi: bool = False
    is_cci: bool = False
    original_ddl: str | None = None
    ddl_scope: int | None = None
    manually_created_table_group: bool = False
    enable_implicit_table_group: bool = False
    foreign_keys_ddl: bool = False
    flags2: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> "Extension":
        """Parse the column; NULL and empty text give an empty Extension. Raises ValueError if the text is not a JSON
        object.
        """
        values = _object(text)
        variables = values.get("polarxVariables")
        return cls(
            task_id=_number(values, "taskId"),
            task_sub_seq=_number(values, "taskSubSeq"),
            create_sql_for_physical=_text(values, "createSql4PhyTable"),
            server_id=_number(values, "serverId"),
            sql_mode=_text(values, "sqlMode"),
            use_omc=_flag(values, "useOMC"),
            group_name=_text(values, "groupName"),
            is_gsi=_flag(values, "isGsi") or _flag(values, "gsi"),
            is_cci=_flag(values, "isCci") or _flag(values, "cci"),
            # `orginalDdl`: a misspelling of older clusters.
            original_ddl=_text(values, "originalDdl") or _text(values, "orginalDdl"),
            ddl_scope=_number(values, "ddlScope"),
            manually_created_table_group=_flag(values, "manuallyCreatedTableGroup"),
            enable_implicit_table_group=_flag(values, "enableImplicitTableGroup"),
            foreign_keys_ddl=_flag(values, "foreignKeysDdl"),
            flags2=_number(values, "flags2"),
            variables=variables if isinstance(variables, dict) else {},
            values=values,
        )


def _object(text: str | None) -> Mapping[str, Any]:
    if text is None or not text.strip():
        return {}
    value = json.loads(text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {text[:100]!r}")
    return value


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,30}\s*", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return None if value is None or value == "" else str(value)


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name)
    return value is True or (isinstance(value, str) and value.lower() == "true")
