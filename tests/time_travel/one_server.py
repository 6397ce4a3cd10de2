"""A real server's binlog, merged as that of a cluster with one node: with order keys and a schema history."""

import shutil
from pathlib import Path

import yaml

from binlog_merge.log.log import Log
from tests.merge_e2e.local import merge
from tests.mysql_server import MySqlServer


def merged_of(server: MySqlServer, folder: Path) -> Log:
    """Return the merged log of the only binlog file of a server."""
    (file,) = server.binlog_files()
    (folder / "n1").mkdir(parents=True)
    shutil.copyfile(file, folder / "n1" / file.name)
    document = {
        "version": 1,
        "name": "one",
        "nodes": [{"source-id": "n1", "files": ["n1/binlog.*"]}],
        "commit-tso": {"carrier": "gtid-time"},
        "shard-mode": "pessimistic",
    }
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    merge(path, folder / "merged")
    return Log(folder / "merged")
