"""Record `data/all-types/binlog.*` from a real MySQL: `python -m tests.binlog.record`.

The files change from run to run (clocks, the server's uuid); what tests expect of them does not.
"""

import shutil
import tempfile
from pathlib import Path

from tests.mysql_server import MySqlServer

ALL_TYPES = Path(__file__).parent / "data" / "all-types"


def sessions() -> list[str]:
    """Return the statements of each session."""
    text = (ALL_TYPES / "statements.sql").read_text()
    return [part.strip().rstrip(";") for part in text.split("-- session\n")]


def record(work: Path, target: Path) -> list[Path]:
    """Run the statements on a new server in `work`, and copy its binlogs to `target`."""
    with MySqlServer(work, server_id=77) as server:
        for statements in sessions():
            server.execute(statements)
        files = server.binlog_files()
        server.stop()
        return [Path(shutil.copyfile(file, target / file.name)) for file in files]


if __name__ == "__main__":
    for old in ALL_TYPES.glob("binlog.0*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as directory:
        record(Path(directory) / "server", ALL_TYPES)
