"""The section `archive` of the configuration: where closed files of the output are sent."""

from typing import Any, Literal

from pydantic import model_validator

from binlog_merge.config.sections import Section
from binlog_merge.config.values import OutputPlace


class Archive(Section):
    """A folder, or a place in an object store, and how files are compressed there; a text alone is the place."""

    to: OutputPlace
    compress: Literal["none", "zstd"] = "none"

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"to": value} if isinstance(value, str) else value
