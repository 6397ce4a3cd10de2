"""What the rounds of one process pass on, so that a round costs what is new. A run of its own begins with nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.as_of import AsOf
from binlog_merge.files.listing import KnownHeads
from binlog_merge.files.manifest import Elsewhere, Manifest
from binlog_merge.files.node_file import Discovery
from binlog_merge.pipeline.archiving import Archiver
from binlog_merge.pipeline.coordinate.schema_cache import SchemaCache
from binlog_merge.pipeline.coordinate.stores import cache_of
from binlog_merge.pipeline.gather.collisions import KnownKeys
from binlog_merge.pipeline.scan.kept import KeptPieces

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.writeset_history import OpenHistory


@dataclass
class Between:
    """What a round leaves for the next: its scanned pieces, what it read of the schema store, and the manifest.

    `manifest` is None if it is to be loaded, and the output checked. `heads` are the nodes' files as they were read,
    `found` what the last round found of them, `notes` those of the capture (`files.as_of`) about the nodes that hold
    something back, which may let it out. `removed_at` is when `retention` was looked at last, by the monotonic clock.
    `elsewhere` is the manifest's. `archiver` is told what is published. `keys` are those that stand in the log.
    `history` is what transactions to come may depend on in the open file.
    """

    schemas: SchemaCache
    pieces: KeptPieces = field(default_factory=KeptPieces)
    manifest: Manifest | None = None
    heads: KnownHeads = field(default_factory=dict)
    found: Discovery | None = None
    notes: Mapping[str, tuple[AsOf, ...]] = field(default_factory=dict)
    removed_at: float | None = None
    elsewhere: Elsewhere | None = None
    archiver: Archiver | None = None
    keys: KnownKeys = field(default_factory=KnownKeys)
    history: "OpenHistory | None" = None

    @classmethod
    def of(cls, config: MergeConfig, directory: Path) -> "Between":
        """Return what a first round begins with: nothing."""
        return cls(cache_of(config, directory))

    def forget(self) -> None:
        """Forget everything, after a round that failed: the next one begins with what is on disk."""
        self.manifest = self.found = self.history = None
        self.keys = KnownKeys()
        self.heads.clear()
        self.pieces.clear()
        self.schemas.clear()
