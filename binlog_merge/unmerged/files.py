"""Renders a file that a merge would write into a folder for the moment, to be read as a file of a merged log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from binlog_merge.errors import MergeError
from binlog_merge.files.manifest import Header, ManifestState, OutputFile
from binlog_merge.files.scratch import scratch_folder
from binlog_merge.log.reader import MergedBinlog
from binlog_merge.pipeline.base.blocks import Held, holding
from binlog_merge.pipeline.gather.task import render
from binlog_merge.pipeline.gather.values import GatherTask, doubted_orders
from binlog_merge.unmerged.plan import LogAsFound, UnmergedFile

_LOG = logging.getLogger(__name__)


@contextmanager
def rendered(file: UnmergedFile, common: GatherTask, header: Header) -> Iterator[tuple[MergedBinlog, OutputFile]]:
    """Yield a log that has this file alone. It takes its size in the folder for temporary files (TMPDIR).

    Logs what a merge warns of when it writes. Raises what a merge does at rows that are wrong.
    """
    task = replace(common, name=file.name, next_name=file.next_name, rank=file.first_rank, runs=file.runs)
    with scratch_folder() as folder:
        with holding(Held(file.blocks)):
            made = render(task, folder)
        if made.error is not None:
            raise MergeError.from_dict(made.error)
        for text in made.believed:
            _LOG.warning("the table map is believed, not the schema history: %s", text)
        for text in doubted_orders(made.doubted):
            _LOG.warning("%s", text)
        first, last = ("" if key is None else key.text() for key in (made.first_key, made.last_key))
        output = OutputFile(
            file.name, made.size, True, first, last, file.first_rank, file.last_rank, made.input_bytes,
            made.transactions, made.sequence,
        )  # fmt: skip
        yield MergedBinlog(LogAsFound(folder, ManifestState(header, None, (output,)))), output
