"""Spark's types as Arrow's, as the Spark that runs wants them of a data source."""

from inspect import signature
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema


def arrow_schema(schema: Any) -> Any:
    """Return a schema whose times are in UTC. pyspark 4.1 has them so in any case, later ones have to be told."""
    told = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **told)
