"""A file that is to be published, as the attempt that wrote it says that it is."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.errors import RenderedDamaged, io_error

_READ: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file that one attempt wrote, to a path of its own: its size, and the CRC-32 of all its bytes."""

    path: Path
    size: int
    crc: int

    def check(self, name: str) -> None:
        """Read the file and compare it. Raises RenderedDamaged, with the `name` that it is to get, and IoError."""
        size = crc = 0
        try:
            with self.path.open("rb", buffering=0) as file:
                while part := file.read(_READ):
                    size, crc = size + len(part), zlib.crc32(part, crc)
        except OSError as error:
            raise io_error(error, str(self.path)) from error
        self.compare(name, size, crc)

    def compare(self, name: str, size: int, crc: int) -> None:
        """Raise RenderedDamaged if what was read of the file has another size or CRC-32."""
        if size != self.size:
            raise RenderedDamaged(f"{name} has {size} bytes where {self.size} were written", file=str(self.path))
        if crc != self.crc:
            raise RenderedDamaged(f"{name} has other bytes than were written to it", file=str(self.path))
