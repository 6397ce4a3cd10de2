"""What runs on an executor: tasks of a stage, and the rows in which tasks, blocks and results travel.

    into a task      target, path, piece, data                 the task itself under the path "", with the number of the
                                                               pieces that it reads, and these
    out of a task    number, path, piece, near, place, data    its result under the path "", and the pieces it writes

A result and the pieces of small blocks are `near`, the other pieces `data`: who asks for a column does not read the
other. Those in `data` are counted by `place`. Near pieces go together, many in a row with the path TOGETHER: what a row
costs the JVM is more than a small piece does. No row is of a transaction, and none is large: the JVM holds several
copies of a row at once.
"""

import io
import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import pyarrow as pa

from binlog_merge.errors import MergeError
from binlog_merge.pipeline.base.blocks import Held, Pieces, holding
from binlog_merge.pipeline.base.pieces import Extent, extent_of, only

ROWS_IN: Final = pa.schema({"target": pa.int32(), "path": pa.string(), "piece": pa.int32(), "data": pa.binary()})
_ROWS_OUT: Final = pa.schema(
    {
        "number": pa.int64(),
        "path": pa.string(),
        "piece": pa.int32(),
        "near": pa.binary(),
        "place": pa.int32(),
        "data": pa.binary(),
    }
)
_BATCH_BYTES: Final = 4 << 20
_SAYS: Final = "binlog-merge says: "
NEAR_BLOCK: Final = 1 << 20
NEAR_STAGE: Final = 32 << 20
TOGETHER: Final = "together"
"""The path of rows with several pieces, each of which has a path of its own."""
TOGETHER_BYTES: Final = 1 << 18

PieceOf = tuple[str, int, bytes]
"""The path of a block, the number of one of its pieces, and the piece."""
Batches = Iterable[pa.RecordBatch]
Input = tuple[int, bytes, Mapping[str, Pieces]]
"""A task's number, the task, and the blocks that it reads."""
Inputs = Callable[[Batches], Iterator[Input]]
"""How a partition's rows become its tasks: `Numbered`, `brought`."""


def columns_out() -> Any:
    """Return the columns of rows out of a task. Of their names and types as a text, Spark would load its parser."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_ROWS_OUT)


def pickled(tasks: Sequence[Any]) -> tuple[bytes, list[bytes]]:
    """Return what all tasks have in common, pickled once, and each task without it, for `task_of`."""
    first, others = tasks[0], tasks[1:]
    names = [field.name for field in fields(first)] if is_dataclass(first) and others else []
    same = (name for name in names if all(getattr(task, name) is getattr(first, name) for task in others))
    values = (getattr(first, name) for name in same)
    common = [value for value in values if not isinstance(value, int | str | bytes | float | None)]
    numbers = {id(value): number for number, value in enumerate(common)}
    return pickle.dumps(common), [_pickled(task, numbers) for task in tasks]


class _Pickler(pickle.Pickler):
    """Leaves out the values whose ids have numbers."""

    def __init__(self, data: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(data, pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, value: Any) -> int | None:
        return self._numbers.get(id(value))


def _pickled(task: Any, numbers: Mapping[int, int]) -> bytes:
    if not numbers:  # a pickler that leaves values out asks about each number and text
        return pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
    data = io.BytesIO()
    _Pickler(data, numbers).dump(task)
    return data.getvalue()


class _Unpickler(pickle.Unpickler):
    """Puts the values in by their numbers."""

    def __init__(self, data: io.BytesIO, values: Sequence[Any]) -> None:
        super().__init__(data)
        self._values = values

    def persistent_load(self, number: Any) -> Any:
        return self._values[number]


def task_of(data: bytes, common: bytes) -> Any:
    """Return a task of `pickled`."""
    return _Unpickler(io.BytesIO(data), pickle.loads(common)).load()


class Done(NamedTuple):
    """What a task returned, how long it took, and the pieces of the blocks it wrote that are far, by place."""

    seconds: float
    value: Any
    far: Mapping[str, tuple[Extent, ...]]


def result_of(data: bytes) -> Done:
    """Return what a task's row with the path "" says."""
    done: Done = pickle.loads(data)
    return done


class Numbered:
    """The input of tasks that read no blocks: a row has a task's number, and the tasks are here."""

    def __init__(self, tasks: Sequence[bytes]) -> None:
        self._tasks = tuple(tasks)

    def __call__(self, batches: Batches) -> Iterator[Input]:
        """Yield each task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield number, self._tasks[number], {}


def brought(batches: Batches) -> Iterator[Input]:
    """Yield the tasks of a partition, each with the blocks that were brought to it: all pieces that its row counts."""
    found: dict[int, list[tuple[str, int, bytes]]] = {}
    for batch in batches:
        for target, *row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.setdefault(target, []).append((row[0], row[1], row[2]))
    for number in sorted(found):
        rows = found.pop(number)
        ((wanted, task),) = ((piece, data) for path, piece, data in rows if not path)
        pieces = list(apart(row for row in rows if row[0]))
        if len(pieces) != wanted:
            raise RuntimeError(f"task {number} reads {wanted} pieces, and Spark has brought {len(pieces)}")
        yield number, task, blocks_of(pieces)


def together(pieces: Iterable[PieceOf]) -> Iterator[bytes]:
    """Yield the data of rows with the path TOGETHER, none of which is large but for a piece's sake."""
    found, size = list[PieceOf](), 0
    for piece in pieces:
        if found and size + len(piece[2]) > TOGETHER_BYTES:
            yield pickle.dumps(found)
            found, size = [], 0
        found.append(piece)
        size += len(piece[2])
    if found:
        yield pickle.dumps(found)


def apart(rows: Iterable[PieceOf]) -> Iterator[PieceOf]:
    """Yield the pieces of rows, each of which has one, or several that go together."""
    for row in rows:
        yield from pickle.loads(row[2]) if row[0] == TOGETHER else (row,)


def blocks_of(rows: Iterable[PieceOf]) -> dict[str, Pieces]:
    """Return blocks by path, each with its pieces in order, from rows of (path, piece, data)."""
    found: dict[str, dict[int, bytes]] = {}
    for path, piece, data in rows:
        found.setdefault(path, {})[piece] = data
    return {path: [pieces[piece] for piece in sorted(pieces)] for path, pieces in found.items()}


class _Row(NamedTuple):
    number: int
    path: str
    piece: int
    near: bytes | None
    place: int | None = None
    data: bytes | None = None

    @property
    def size(self) -> int:
        """Return how many bytes of a piece, or of a result, the row has."""
        return len(self.near or self.data or b"")


class TaskError(Exception):
    """What stopped a task, as text: of an exception Spark brings nothing else to the driver."""


@contextmanager
def telling() -> Iterator[None]:
    """Raise TaskError, which `error_in` reads, for an error of the package's own."""
    try:
        yield
    except MergeError as error:
        raise TaskError(f"{_SAYS}{json.dumps(error.to_dict())}") from error


def error_in(text: str) -> MergeError | None:
    """Return the error of a task that Spark's text has within it, None if it has none."""
    _, found, rest = text.partition(_SAYS)
    return MergeError.from_dict(json.JSONDecoder().raw_decode(rest)[0]) if found else None


class Work:
    """The body of a stage: calls the function on each task, and gives results and blocks.

    Blocks that are small come near: to the driver with the result, as long as the stage's are not too many.
    """

    def __init__(self, function: Callable[[Any], Any], common: bytes, tasks: int, inputs: Inputs) -> None:
        self._function, self._common, self._inputs = function, common, inputs
        self._room, self._most = NEAR_STAGE // tasks, NEAR_BLOCK

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return _batches(self._rows(batches))

    def _rows(self, batches: Batches) -> Iterator[_Row]:
        for number, task, blocks in self._inputs(batches):
            held = Held(blocks)
            begun = time.perf_counter()
            with holding(held), telling():
                result = self._function(task_of(task, self._common))
            seconds, far, room = time.perf_counter() - begun, dict[str, tuple[Extent, ...]](), self._room
            places, close = count(), list[PieceOf]()
            for path, block in sorted(held.written.items()):  # a task that runs again may not write in the same order
                size = sum(map(len, block))
                if size <= min(room, self._most):
                    room -= size
                    close += [(path, piece, data) for piece, data in enumerate(block)]
                    continue
                far[path] = tuple(map(extent_of, block))
                for piece, data in enumerate(block):
                    yield _Row(number, path, piece, None, next(places), data)
            for row, data in enumerate(together(close)):
                yield _Row(number, TOGETHER, row, data)
            yield _Row(number, "", 0, pickle.dumps(Done(seconds, result, far)))


class Batched:
    """The body of a stage whose results are rows for the user: gives the Arrow batches that the function yields."""

    def __init__(self, function: Callable[[Any], Iterator[pa.RecordBatch]], common: bytes) -> None:
        self._function, self._common = function, common

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for _, task, blocks in brought(batches):
            with holding(Held(blocks)):
                yield from self._function(task_of(task, self._common))


def _batches(rows: Iterator[_Row]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches, none of which is large but for a row's sake."""
    found, size = list[_Row](), 0
    for row in rows:
        if found and size + row.size > _BATCH_BYTES:
            yield _batch(found)
            found, size = [], 0
        found.append(row)
        size += row.size
    if found:
        yield _batch(found)


def _batch(rows: Sequence[_Row]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_pydict(dict(zip(_ROWS_OUT.names, columns, strict=True)), schema=_ROWS_OUT)


def columns_only(names: Sequence[str]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow that leaves only some columns of pieces."""
    return partial(_columns_only, tuple(names))


def _columns_only(names: Sequence[str], batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        data = [only(piece, names) for piece in batch.column("data").to_pylist()]
        yield batch.set_column(batch.schema.get_field_index("data"), "data", pa.array(data, pa.binary()))
