"""The errors that stop a merge or another command: a class and an exit code for each cause.

An error says what happened, where (node, file, position, order key) and what to do. The values are plain, so an error
travels from an executor to the driver unchanged, by pickle or as a dict. Nothing here prints or decides to go on.
"""

# ruff: noqa: N818 (a fault's name says what was found: MissingFile, not MissingFileError)

import errno
import os
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

from binlog_merge.redaction import redacted
from snapshot_store.tso import OrderKey


class MergeError(Exception):
    """The base of all errors: the merge met something that it does not understand, and stopped before it.

    `result` is set by the job when files were published before the stop; it stays on the driver's side.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 70
    default_remedy: ClassVar[str] = ""
    may_pass: ClassVar[bool] = False
    """Whether the cause may go away without anybody's doing, so that running the command again may help."""

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        file: str | None = None,
        position: int | None = None,
        order_key: OrderKey | str | None = None,
        remedy: str | None = None,
    ) -> None:
        message = redacted(message)
        super().__init__(message)  # args stay (message,): that is what pickle calls the class with
        self.message = message
        self.node = node
        self.file = None if file is None else redacted(file)
        self.position = position
        self.order_key = order_key.text() if isinstance(order_key, OrderKey) else order_key
        self.remedy = self.default_remedy if remedy is None else redacted(remedy)
        self.result: Any = None

    def where(self) -> str:
        """Return node, file, position and order key as text, as far as they are known; "" if none is."""
        parts = (
            ("node", self.node),
            ("file", self.file),
            ("position", self.position),
            ("order key", self.order_key),
        )
        return ", ".join(f"{name} {value}" for name, value in parts if value is not None)

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if where := self.where():
            lines.append(f"  where:      {where}")
        if self.remedy:
            lines.append(f"  what to do: {self.remedy}")
        return "\n".join(lines)

    def located(
        self,
        *,
        node: str | None = None,
        file: str | None = None,
        position: int | None = None,
        order_key: OrderKey | str | None = None,
    ) -> Self:
        """Fill in the parts of the location that are still unknown; return self: `raise error.located(node=...)`."""
        self.node = node if self.node is None else self.node
        self.file = redacted(file) if self.file is None and file is not None else self.file
        self.position = position if self.position is None else self.position
        if self.order_key is None:
            self.order_key = order_key.text() if isinstance(order_key, OrderKey) else order_key
        return self

    def with_remedy(self, remedy: str) -> Self:
        """Replace what to do, where what is done by default is of no help; return self."""
        self.remedy = remedy
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `-o json` prints them and executors return them."""
        return {
            "code": self.code,
            "exit_code": self.exit_code,
            "message": self.message,
            "node": self.node,
            "file": self.file,
            "position": self.position,
            "order_key": self.order_key,
            "remedy": self.remedy,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "MergeError":
        """Return the error that `to_dict` was called on; an unknown code becomes InternalError."""
        return ERRORS.get(values["code"], InternalError)(
            values["message"],
            node=values.get("node"),
            file=values.get("file"),
            position=values.get("position"),
            order_key=values.get("order_key"),
            remedy=values.get("remedy"),
        )


class ConfigError(MergeError):
    """The command line or the configuration file is wrong."""

    code, exit_code = "config", 2


class NoFiles(MergeError):
    """A node has no binlog files."""

    code, exit_code = "no-files", 10
    may_pass = True
    default_remedy = "check the node's `files` pattern in the configuration; it must match its mysql-bin.NNNNNN files"


class TruncatedEvent(MergeError):
    """An event ends beyond its file: not the node's last, or one that its server has closed."""

    code, exit_code = "truncated-event", 11
    default_remedy = "copy the file from the node again; it must be complete, as its server has closed it"


class ChecksumMismatch(MergeError):
    """An event's header, body or checksum is damaged."""

    code, exit_code = "checksum-mismatch", 12
    default_remedy = "copy the file from the node again and compare it with `mysqlbinlog --verify-binlog-checksum`"


class MissingFile(MergeError):
    """A file is missing between two files of a node."""

    code, exit_code = "missing-file", 13
    may_pass = True  # whoever copies files need not do so in their order
    default_remedy = "put the missing files back; a gap is never skipped"


class NotArchived(MergeError):
    """Files that are to be removed are not in the archive yet."""

    code, exit_code = "not-archived", 57
    may_pass = True
    default_remedy = (
        "run the merge, which sends them; `status` says what is in the way. Or take `archive` out of the "
        "configuration, and run the merge once"
    )


class Purged(MergeError):
    """What comes next of a node's log was purged: on its server, or by retention."""

    code, exit_code = "purged", 53
    default_remedy = "put the files back from a backup; a gap is never skipped"


class DuplicateFile(MergeError):
    """The same binlog file is there twice."""

    code, exit_code = "duplicate-file", 14
    default_remedy = (
        "remove one of the two, or narrow the node's `files` pattern; if both were captured, two nodes have one "
        "`server`: correct it"
    )


class WrongNode(MergeError):
    """A file belongs to another node than the one it is configured for."""

    code, exit_code = "wrong-node", 15
    default_remedy = (
        "give each node its own files; see the server id in `binlog-merge inspect FILE`. Two servers that have one "
        "server_id are told apart if they write GTIDs, or if `binlog-merge capture` fetches their files"
    )


class ShorterThanMerged(WrongNode):
    """A node's file has less than was merged from it: the node lost it, or it was merged where more is captured."""


class EncryptedBinlog(MergeError):
    """A file is encrypted on disk."""

    code, exit_code = "encrypted-binlog", 16
    default_remedy = (
        "read the binlog through the server, which decrypts it: `binlog-merge capture`, or mysqlbinlog "
        "--read-from-remote-server --raw; or set binlog_encryption=OFF on the node"
    )


class StatementDml(MergeError):
    """A change is logged as a statement, not as rows."""

    code, exit_code = "statement-dml", 17
    default_remedy = "the nodes must write binlog_format=ROW; a statement cannot be merged without changing its meaning"


class RowsWithoutTableMap(MergeError):
    """A rows event names a table id that no table map introduced."""

    code, exit_code = "rows-without-table-map", 18
    default_remedy = "the file is damaged or was cut; copy it from the node again"


class UnknownEvent(MergeError):
    """An event type is not known and is not marked ignorable."""

    code, exit_code = "unknown-event", 19
    default_remedy = "report the event type and the server version; nothing is skipped in silence"


class UnknownTableSchema(MergeError):
    """Rows of a table arrive whose schema at that moment is not known."""

    code, exit_code = "unknown-table-schema", 20
    default_remedy = "add the table to `base.logical` (and the node's `base.physical`), as it was before the first file"


class SchemaMismatch(MergeError):
    """A table map disagrees with the schema history in column count or types."""

    code, exit_code = "schema-mismatch", 21
    default_remedy = "`base.physical` of the node must describe its tables as they were before the first file"


class MarkerIncomplete(MergeError):
    """A marker is missing on some of the nodes."""

    code, exit_code = "marker-incomplete", 22
    default_remedy = "give the binlogs of every node of the cluster, up to and beyond the marker"


class MarkerDisagreement(MergeError):
    """The copies of one marker differ between nodes."""

    code, exit_code = "marker-disagreement", 23
    default_remedy = "the marker row must be the same on every node; find out which node was written to by hand"


class LateTransaction(MergeError):
    """A transaction arrives below a watermark that is already published."""

    code, exit_code = "late-transaction", 24
    default_remedy = "merge again from the start into an empty directory, with every node's files complete"


class OutputBusy(MergeError):
    """Another merge, or capture, is writing to this directory."""

    code, exit_code = "output-busy", 25
    may_pass = True
    default_remedy = "wait for it to end, or choose another --merged"


class LeaseLost(OutputBusy):
    """Another process has taken over the output."""

    default_remedy = "nothing: it goes on there; started again, this one waits as a standby"


class LeaseLapsed(OutputBusy):
    """The lease was not renewed in time, so that another process may take over: nothing is written until it is."""

    default_remedy = "nothing, if it passes: the store did not answer in time, or this machine stood still"


class DdlNotUnderstoodError(MergeError):
    """A DDL statement was not understood."""

    code, exit_code = "ddl-not-understood", 26
    default_remedy = "report the statement; the merged binlog is complete up to just before it"


class MissingCommitTso(MergeError):
    """A distributed transaction has no commit TSO."""

    code, exit_code = "missing-commit-tso", 27
    default_remedy = "check `commit-tso.carrier` against what the cluster writes; see `binlog-merge inspect`"


class ManifestError(MergeError):
    """The manifest of the output is damaged, or of another cluster or configuration."""

    code, exit_code = "manifest", 28
    default_remedy = "choose another --merged, or continue with the configuration the directory was made with"


class UnsupportedInput(MergeError):
    """The input is of a kind that is not supported."""

    code, exit_code = "unsupported-input", 29
    default_remedy = "report what the input is; what stands before it is merged and stays valid"


class CommitTsoConflict(MergeError):
    """The branches of one transaction carry different commit TSOs."""

    code, exit_code = "commit-tso-conflict", 30
    default_remedy = "find out which node was written to by hand; the order of this transaction cannot be known"


class ConversionFailed(MergeError):
    """A cell cannot be written in the logical column's type while a MODIFY is in flight."""

    code, exit_code = "conversion", 32
    default_remedy = (
        "let `reshape.on-unconvertible` say what is to stand there (clamp, default) and run the merge again, or "
        "correct the value at its source; nothing is changed in silence"
    )


CHECK_PATH = "check the path, and the permissions there"
"""The remedy of an IoError where something is only read."""

_OF_THE_PATH = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
}


def io_remedy(error: OSError | UnicodeError) -> str | None:
    """Return what to do about a file that cannot be read or written; None where room or a disk may be missing."""
    if isinstance(error, UnicodeError):
        return "save the file as UTF-8"
    return CHECK_PATH if error.errno in _OF_THE_PATH else None


def reason(error: OSError | UnicodeError) -> str:
    """Return what the system says of a file that cannot be read, without the number and the path."""
    return getattr(error, "strerror", None) or str(error)


class IoError(MergeError):
    """Reading or writing a file failed."""

    code, exit_code = "io", 31
    may_pass = True
    default_remedy = "check permissions and free space, then run it again; what was published before stays valid"


def io_error(error: OSError, path: str, position: int | None = None) -> IoError:
    """Return an IoError with the system's message and the location."""
    return IoError(reason(error), file=path, position=position, remedy=io_remedy(error))


class RenderedDamaged(MergeError):
    """A file that is to be published is not what its task wrote."""

    code, exit_code = "rendered-damaged", 61
    may_pass = True
    default_remedy = (
        "run it again: it writes the file anew, and what was published before stays valid; if it comes again, look for "
        "another program that writes to the folder, and at its disk or network file system"
    )


class ObjectStoreRefused(MergeError):
    """An object store refuses what is asked: bucket, credentials or region are wrong."""

    code, exit_code = "object-store-refused", 54


class ObjectStoreUnreachable(MergeError):
    """An object store does not answer, or only with errors of its own."""

    code, exit_code = "object-store", 55
    may_pass = True
    default_remedy = (
        "check the address (endpoint_override) and the network, and run it again; what was published before stays valid"
    )


class UnknownTable(MergeError):
    """A question names a table that the schema store does not have, or not at that moment."""

    code, exit_code = "unknown-table", 33
    default_remedy = "`binlog-merge schema show '*'` shows all tables; add --node NODE for those of a node"


class BeforeBase(MergeError):
    """A question is about a moment before everything the schema store knows."""

    code, exit_code = "before-base", 34


class StoreInUse(MergeError):
    """Another process is writing to the schema store."""

    code, exit_code = "store-in-use", 35
    may_pass = True
    default_remedy = "try again when it has ended; a merge holds the store for moments only"


class StoreTooNew(MergeError):
    """The schema store was written by a newer program."""

    code, exit_code = "store-too-new", 36
    default_remedy = "use the program that wrote it, or a newer one"


class StoreUnusable(MergeError):
    """The schema store is missing or damaged, or cannot do what is asked."""

    code, exit_code = "store", 37


class SchemaConflict(MergeError):
    """The schema store has another definition at the same order key, or is folded."""

    code, exit_code = "schema-conflict", 38


class ServerRefused(MergeError):
    """A server cannot be reached, or refuses what is asked of it."""

    code, exit_code = "server", 39
    may_pass = True


class ClusterTopology(MergeError):
    """A marker says that tables lie where there is nothing, or cannot be read."""

    code, exit_code = "cluster-topology", 40
    default_remedy = (
        "every storage instance of the cluster must be a node of the configuration, by its source-id or its "
        "`storage-inst-id`"
    )


class ClockStep(MergeError):
    """A node's clock stepped back further than is allowed, where clocks alone give the order."""

    code, exit_code = "clock-step", 41
    default_remedy = (
        "if the order between nodes may be that much off there, raise `commit-tso.max-step-back` or set "
        "`commit-tso.on-step-back: warn`, and merge again; a node's own order is never changed"
    )


class ShardDdlStopped(MergeError):
    """Shards without markers have run DDL that cannot be brought together."""

    code, exit_code = "shard-ddl", 42
    default_remedy = "`binlog-merge ddl locks` shows what waits, `binlog-merge ddl resolve` decides about it"


class ShardsInDoubt(MergeError):
    """Shards have run DDL after which the table would hold other data; or copies differ."""

    code, exit_code = "shard-doubt", 43
    default_remedy = (
        "see what the statement did to the shard's rows; where that may be, set `shard-doubts: warn` and merge again"
    )


WAYS_OUT_OF_COLLISIONS = (
    "if the shards hold the same rows, name the table under `copies`; else let `extract-source` with `key: true` in "
    "its route tell their rows apart, or give each shard a table of its own by routes with `source-pattern`; then "
    "import the base, and merge, anew"
)
"""What to do where shards have given rows of one logical table the same key: each way makes another output."""


def not_listening(error: OSError, where: str, remedy: str) -> MergeError:
    """Return the error for an address that cannot be listened on: one that is taken stays taken, others may come."""
    final = error.errno in (errno.EADDRINUSE, errno.EACCES)
    kind = ConfigError if final else ServerRefused
    number = error.errno or 0
    said = os.strerror(number) if number > 0 else error.strerror or error  # asyncio's own text repeats the address
    return kind(f"cannot listen on {where}: {said}", remedy=remedy)


class ReplayStopped(MergeError):
    """The target of a replay refuses a transaction, or is not as it should be."""

    code, exit_code = "replay", 50
    default_remedy = "correct the target and run the replay again; it goes on after what is applied"


class TargetBusy(MergeError):
    """Another replay is writing to this target."""

    code, exit_code = "target-busy", 51
    may_pass = True
    default_remedy = "wait for it to end; two replays of one cluster would apply everything twice"


class NotYet(MergeError):
    """A bootstrap waits for the merge, or for the end of a DDL, and nothing comes on."""

    code, exit_code = "not-yet", 58
    may_pass = True
    default_remedy = (
        "let capture and merge run beside it, and nodes that write nothing have a `heartbeat`; `status` says who holds "
        "back. Run it again: it goes on where it was"
    )


class ReadersBehind(MergeError):
    """Files that are to be removed still have to be sent to attached readers."""

    code, exit_code = "readers-behind", 52
    may_pass = True
    default_remedy = "wait until they have been sent; --force removes them all the same"


class FileChanged(MergeError):
    """A node's file got shorter, was replaced or went away while a merge read it."""

    code, exit_code = "file-changed", 44
    may_pass = True
    default_remedy = (
        "while a merge reads them, a node's files may only grow: let copies end before the merge begins; run it again"
    )


class TransactionTwice(MergeError):
    """A transaction is in the nodes' logs twice, by its GTID or by its sequence number."""

    code, exit_code = "transaction-twice", 47
    default_remedy = (
        "copy the file from the node again; if it is the same there, find out what wrote it. `log-doubts: warn` merges "
        "what the logs hold, as often as they hold it"
    )


class TransactionMissing(MergeError):
    """A transaction is missing from a node's log, by its GTID or by its sequence number."""

    code, exit_code = "transaction-missing", 48
    default_remedy = (
        "copy the file from the node again; if it is the same there, find out what wrote it. `log-doubts: warn` merges "
        "what is left"
    )


class OutsideLog(MergeError):
    """A question is about a moment or a place that the merged log does not reach."""

    code, exit_code = "outside-log", 45


WITHOUT_MARKERS = (
    "if the nodes write no markers, say how to do without: `shard-mode: pessimistic` (all shards run the same DDL in "
    "the same order; right for a single node too) or `shard-mode: optimistic`"
)


class UnannouncedDdl(MergeError):
    """DDL of nodes changes rows, and no marker has ever said when logical tables change."""

    code, exit_code = "unannounced-ddl", 46
    default_remedy = (
        f"{WITHOUT_MARKERS}; if they do, give every node's files up to and beyond the marker, and the tables' names in "
        "`markers`; to keep the logical tables as they are, whatever nodes run, `markers: {missing: warn}`"
    )


class EngineFailed(MergeError):
    """Spark could not finish a job: an executor, a worker or the JVM is gone."""

    code, exit_code = "engine-failed", 49
    may_pass = True
    default_remedy = (
        "stderr has what Spark says; what was published stays valid, run it again. If it happens again, give Spark "
        "more memory (--conf spark.driver.memory=4g) or fewer tasks at once (--master 'local[2]')"
    )


class EngineLost(EngineFailed):
    """The JVM has died, and cannot be started again in this process: another process may try."""


class ExecutorUnfit(MergeError):
    """An executor has not the package or the Python that the driver has."""

    code, exit_code = "executor", 56
    default_remedy = (
        "executors need the driver's version of binlog-merge, and its Python up to the minor version: send the package "
        "with `--conf spark.archives=FILE#binlog_merge_packages` (`python -m binlog_merge.spark.archive FILE` makes "
        "it), put it into their image, or install it there; --conf spark.pyspark.python=PATH names their Python"
    )


class KeysInDoubt(MergeError):
    """Rows of shards have one key, or no order of a transaction's rows keeps a key unique."""

    code, exit_code = "key-doubt", 59
    default_remedy = (
        "a target that enforces the key refuses these rows in any order, and a sink that upserts loses one of them; "
        "with `key-doubts: warn` they come out branch by branch, and the result names the transaction"
    )


class UndoRefused(MergeError):
    """Changes cannot be undone exactly: a DDL is among them, or values are not in the log."""

    code, exit_code = "undo-refused", 60
    default_remedy = "narrow the range with --start and --stop, or the rows with --where"


class InternalError(MergeError):
    """The program itself is at fault."""

    code, exit_code = "internal", 70
    may_pass = True
    default_remedy = "report it with the output of --debug; what was published before stays valid"


# The order is the order of exit codes.
ERROR_CLASSES: tuple[type[MergeError], ...] = (
    ConfigError,
    NoFiles,
    TruncatedEvent,
    ChecksumMismatch,
    MissingFile,
    DuplicateFile,
    WrongNode,
    EncryptedBinlog,
    StatementDml,
    RowsWithoutTableMap,
    UnknownEvent,
    UnknownTableSchema,
    SchemaMismatch,
    MarkerIncomplete,
    MarkerDisagreement,
    LateTransaction,
    OutputBusy,
    DdlNotUnderstoodError,
    MissingCommitTso,
    ManifestError,
    UnsupportedInput,
    CommitTsoConflict,
    IoError,
    ConversionFailed,
    UnknownTable,
    BeforeBase,
    StoreInUse,
    StoreTooNew,
    StoreUnusable,
    SchemaConflict,
    ServerRefused,
    ClusterTopology,
    ClockStep,
    ShardDdlStopped,
    ShardsInDoubt,
    FileChanged,
    OutsideLog,
    UnannouncedDdl,
    TransactionTwice,
    TransactionMissing,
    EngineFailed,
    ReplayStopped,
    TargetBusy,
    ReadersBehind,
    NotArchived,
    Purged,
    ObjectStoreRefused,
    ObjectStoreUnreachable,
    ExecutorUnfit,
    NotYet,
    KeysInDoubt,
    UndoRefused,
    RenderedDamaged,
    InternalError,
)

FINAL_EXITS: tuple[int, ...] = tuple(sorted(error.exit_code for error in ERROR_CLASSES if not error.may_pass))
"""The exit codes after which no restart can help: somebody must correct the configuration first, or look at damage."""

ERRORS: dict[str, type[MergeError]] = {error.code: error for error in ERROR_CLASSES}

EXIT_FOUND = 1
EXIT_UNJUDGED = 3
EXIT_INTERRUPTED = 130  # 128 + SIGINT
EXIT_TERMINATED = 143  # 128 + SIGTERM


class ExitCode(NamedTuple):
    """A row of the table of exit codes that `--help`, docs/reference/exit-codes.md and the tests share."""

    exit_code: int
    code: str
    meaning: str


_EXITS: tuple[ExitCode, ...] = (
    ExitCode(0, "ok", "The command did what was asked."),
    ExitCode(EXIT_FOUND, "found", "`schema check`, `verify --against` or `status` found something; it is printed."),
    ExitCode(EXIT_UNJUDGED, "unjudged", "`verify --against` found no difference, but rows that it cannot judge."),
    *(ExitCode(error.exit_code, error.code, (error.__doc__ or "").splitlines()[0]) for error in ERROR_CLASSES),
    ExitCode(EXIT_INTERRUPTED, "interrupted", "Stopped with Ctrl-C; what was published stays valid."),
    ExitCode(EXIT_TERMINATED, "terminated", "Stopped with SIGTERM; what was published stays valid."),
)
EXIT_CODES = tuple(sorted(_EXITS))
"""All exit codes, sorted by number."""
