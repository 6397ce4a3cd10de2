"""What the sections of the configuration file share: frozen values, keys with hyphens; an unknown key is an error."""

import uuid
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_SERVER_ID = 2**32 - 1

ServerId = Annotated[int, Field(ge=1, le=MAX_SERVER_ID)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)


def _uuid_text(value: Any) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{value!r} is not a UUID") from None


Uuid = Annotated[str, BeforeValidator(_uuid_text)]
