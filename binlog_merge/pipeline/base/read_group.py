"""Reads the bytes of one group from a node's file again."""

from binlog_merge.files.known import open_known
from binlog_merge.pipeline.base.node_input import NodeInput


def read_group(node: NodeInput, file_index: int, start: int, end: int) -> bytes:
    """Return the bytes of the group at [start, end) of a file, or of what is decided in its place."""
    file = node.files[file_index].known
    if (instead := file.instead_of(start)) is not None:
        return instead.group
    data = bytearray(end - start)
    with open_known(file) as source:
        source.read_into(memoryview(data), start)
    return bytes(data)
