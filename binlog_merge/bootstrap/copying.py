"""Reads the nodes beside each other, a thread each; the rows come to one."""

import queue
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.values import Chunk, Name, Progress, Reading, Shard, Unsettled

_WAITING_CHUNKS: Final = 4


def copied_by_threads(
    readers: Mapping[str, NodeReader],
    work: Mapping[Shard, Reading],
    progress: Mapping[Shard, Progress],
    chunk_rows: int,
    as_text: bool,
    given_up: Collection[Name],
) -> Iterator[Chunk | Unsettled]:
    """Yield what the nodes' tables have behind what is copied of them. Raises what the readers raise.

    Tables that are `given_up` meanwhile are not read on.
    """
    found: queue.Queue[Any] = queue.Queue(_WAITING_CHUNKS)
    stop = threading.Event()
    begun = dict(progress)  # the caller's grows meanwhile

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                found.put(item, timeout=0.5)
                return
            except queue.Full:
                continue

    def read(node: str) -> None:
        try:
            for shard, reading in work.items():
                done = begun.get(shard, Progress())
                if shard.node != node or done.done or reading.name in given_up:
                    continue
                for item in readers[node].chunks(shard, reading, done.after, chunk_rows, as_text):
                    put(item)
                    if stop.is_set() or reading.name in given_up:
                        break
        except BaseException as error:  # for the thread that asks
            put(error)
        put(node)

    threads = [threading.Thread(target=read, args=(node,), daemon=True) for node in readers]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            item = found.get()
            if isinstance(item, str):
                left -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        stop.set()
        for thread in threads:
            thread.join()
