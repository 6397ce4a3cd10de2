"""Named integer columns of equal length: how rows are held in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]


def view(buffer: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array as a memoryview, to read into or write from."""
    return memoryview(buffer)  # type: ignore[arg-type]


def from_rows(rows: npt.NDArray[np.int64], names: Sequence[str], where: Sequence[int]) -> dict[str, Column]:
    """Return the columns `where` of a row-wise array, named `names`."""
    return {name: rows[:, column] for name, column in zip(names, where, strict=True)}
