"""The index block of a scanned piece."""

from collections.abc import Mapping
from dataclasses import dataclass

from binlog_merge.pipeline.base.blocks import read_block, read_brought, write_block
from binlog_merge.pipeline.base.columns import Column


@dataclass(frozen=True, slots=True)
class PieceBlock:
    """The block of a scanned piece: up to three blocks whose paths begin with `path`."""

    path: str

    def timed(self) -> dict[str, Column]:
        """Return the branches whose commit TSO is known, by TSO and transaction."""
        return read_block(self.timed_path)

    def local(self) -> dict[str, Column]:
        """Return the transactions without a commit TSO and the DDL, in file order."""
        return read_block(self.local_path)

    def local_part(self) -> tuple[int, dict[str, Column]]:
        """Return what a task has of `local`, and the number of the first row."""
        return read_brought(self.local_path)

    def used_rows(self) -> dict[str, Column]:
        """Return the commit rows that the piece's own branches used. The block exists only if there are any."""
        return read_block(self._path("rows"))

    def write(self, timed: Mapping[str, Column], local: Mapping[str, Column], used_rows: Mapping[str, Column]) -> None:
        """Write the blocks."""
        write_block(self.timed_path, timed)
        write_block(self.local_path, local)
        if any(len(column) for column in used_rows.values()):
            write_block(self._path("rows"), used_rows)

    @property
    def timed_path(self) -> str:
        """Return the path of `timed`."""
        return self._path("timed")

    @property
    def local_path(self) -> str:
        """Return the path of `local`."""
        return self._path("local")

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}.arrow"
