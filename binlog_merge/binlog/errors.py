"""The errors for damaged or unsupported binlog bytes.

Parsers raise them with the reason; callers that know the file and the offset add these with `at`.
"""


class BinlogFormatError(Exception):
    """Bytes that violate the binlog format.

    `offset` is the position of the event in its file, -1 while unknown; inside a transaction payload it is the position
    of the payload event.
    """

    def __init__(self, reason: str, file: str = "", offset: int = -1) -> None:
        super().__init__(reason, file, offset)  # args as given: the error pickles on its way from an executor
        self.reason = reason
        self.file = file
        self.offset = offset

    def __str__(self) -> str:
        place = ":".join(part for part in (self.file, str(self.offset) if self.offset >= 0 else "") if part)
        return f"{place}: {self.reason}" if place else self.reason

    def at(self, file: str, offset: int) -> "BinlogFormatError":
        """Return the same error with file and offset, unless it has them already."""
        return type(self)(self.reason, self.file or file, self.offset if self.offset >= 0 else offset)


class TruncatedEvent(BinlogFormatError):  # noqa: N818
    """The bytes end inside an event: the file is being written, the server crashed, or a copy is incomplete."""


class NoBinlog(BinlogFormatError):  # noqa: N818
    """The file does not begin as a binlog does: it is something else, or its beginning is damaged."""


class ChecksumMismatch(BinlogFormatError):  # noqa: N818
    """The CRC32 of an event does not match its bytes."""


class EncryptedBinlog(BinlogFormatError):  # noqa: N818
    """The file is encrypted, so its events cannot be read here."""


class CellValueError(ValueError):
    """A value that a column of this type cannot hold, or a cell that the requested type cannot represent."""
