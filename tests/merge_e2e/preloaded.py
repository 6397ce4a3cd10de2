"""What the fork server of `killed` imports: everything a merge needs, its kernels loaded."""

import snapshot_store.ddl
import snapshot_store.store.db  # noqa: F401
import tests.merge_e2e.local  # noqa: F401
from binlog_merge.pipeline.warm import warm

warm()
