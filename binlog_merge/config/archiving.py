"""The section `archive` of the configuration: where closed files of the output are sent."""

from typing import Any, Literal

from pydantic import Field, model_validator

from binlog_merge.config.section import Section
from binlog_merge.config.values import OutputPlace


class Archive(Section):
    """A folder, or a place in an object store, and how files are compressed there; a text alone is the place."""

    to: OutputPlace = Field(description="A directory, or a URL of an object store.", examples=["s3://bucket/archive"])
    compress: Literal["none", "zstd"] = Field(
        default="none", description="How files are compressed there.", examples=["zstd"]
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"to": value} if isinstance(value, str) else value
