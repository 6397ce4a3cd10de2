"""What runs on an executor: tasks of a stage, and the rows in which tasks, blocks and results travel.

    into a task      target, path, data          the task itself under the path "", a row; a row for each block it reads
    out of a task    number, path, near, data    its result under the path "", a row; a row for each block it writes

No row is of a transaction: a block is packed into one.
"""

import io
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from binlog_merge.pipeline.base.blocks import Held, Slice, Whole, holding, packed, unpacked

IN: Final = "target int, path string, data binary"
OUT: Final = "number long, path string, near boolean, data binary"
ROWS_IN: Final = pa.schema({"target": pa.int32(), "path": pa.string(), "data": pa.binary()})
_ROWS_OUT: Final = pa.schema({"number": pa.int64(), "path": pa.string(), "near": pa.bool_(), "data": pa.binary()})
NEAR_BLOCK: Final = 4 << 20
NEAR_STAGE: Final = 64 << 20

Batches = Iterable[pa.RecordBatch]
Input = tuple[int, bytes, Mapping[str, bytes]]
"""A task's number, the task, and the blocks that it reads."""
Inputs = Callable[[Batches], Iterator[Input]]
"""How a partition's rows become its tasks: `Numbered`, `brought`."""


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
    """What a task returned, how long it took, and the blocks it wrote that are far."""

    seconds: float
    value: Any
    far: tuple[str, ...]


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
    """Yield the tasks of a partition, each with the blocks that were brought to it."""
    found: dict[int, dict[str, bytes]] = {}
    for batch in batches:
        for target, path, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.setdefault(target, {})[path] = data
    for number in sorted(found):
        blocks = found.pop(number)
        yield number, blocks.pop(""), blocks


class Work:
    """The body of a stage: calls the function on each task, and gives results and blocks.

    Blocks that are small come near: to the driver with the result, as long as the stage's are not too many.
    """

    def __init__(self, function: Callable[[Any], Any], common: bytes, tasks: int, inputs: Inputs) -> None:
        self._function, self._common, self._inputs = function, common, inputs
        self._room, self._most = NEAR_STAGE // tasks, NEAR_BLOCK

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for number, task, blocks in self._inputs(batches):
            held = Held(blocks)
            begun = time.perf_counter()
            with holding(held):
                result = self._function(task_of(task, self._common))
            seconds, far, room = time.perf_counter() - begun, list[str](), self._room
            for path, block in held.written.items():
                near = len(block) <= min(room, self._most)
                room -= len(block) if near else 0
                far += [] if near else [path]
                yield _row(number, path, near, block)
            yield _row(number, "", True, pickle.dumps(Done(seconds, result, tuple(far))))


def _row(number: int, path: str, near: bool, data: bytes) -> pa.RecordBatch:
    values = {"number": [number], "path": [path], "near": [near], "data": [data]}
    return pa.RecordBatch.from_pydict(values, schema=_ROWS_OUT)


class Send:
    """Sends blocks to the tasks that read them: `targets` maps a path to numbers of tasks and what each reads."""

    def __init__(self, targets: Mapping[str, Sequence[tuple[int, Slice]]]) -> None:
        self._targets = dict(targets)

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(name) for name in ("path", "data")]
            for path, data in zip(*columns, strict=True):
                for target, part in self._targets.get(path.as_py(), ()):
                    values = {"target": [target], "path": [path.as_py()], "data": [part_of(data.as_py(), part)]}
                    yield pa.RecordBatch.from_pydict(values, schema=ROWS_IN)


def part_of(block: bytes, part: Slice) -> bytes:
    """Return the part of a packed block."""
    return block if isinstance(part, Whole) else packed(part.of(unpacked(block)))


class Project:
    """Leaves only some columns of blocks."""

    def __init__(self, paths: Sequence[str], names: Sequence[str] | None) -> None:
        self._paths, self._names = frozenset(paths), names

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, data in zip(*(batch.column(name).to_pylist() for name in ("path", "data")), strict=True):
                if path in self._paths:
                    block = data if self._names is None else packed(unpacked(data, self._names))
                    yield pa.RecordBatch.from_pydict({"target": [0], "path": [path], "data": [block]}, schema=ROWS_IN)
