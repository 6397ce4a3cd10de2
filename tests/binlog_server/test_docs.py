"""The pages on serving: their commands run as they stand there, but for names and places."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from binlog_merge.binlog_server.log import PublishedLog
from tests.binlog_server.merged import merged
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import PREFIX, ROOT, MySqlServer

PAGES = ROOT / "docs" / "how-to"
TEXT = (PAGES / "replicas-and-cdc.md").read_text()
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
SQL = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.mysql
def test_the_pages_commands_run(mysql_server: MySqlServer, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    case, out = case_named("two-nodes"), merged("two-nodes")
    (tmp_path / "pw").write_text("hush\n")
    for name, file in zip(("cert.pem", "key.pem"), certificate, strict=True):
        (tmp_path / name).write_bytes(file.read_bytes())
    (tmp_path / "merged").symlink_to(out)
    (tmp_path / "raw").mkdir()
    serve, *clients = SHELL
    command = [str(Path(sys.executable).with_name("binlog-merge")), *shlex.split(serve)[1:]]
    command[command.index("3307")] = "0"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, text=True)
    assert process.stdout is not None
    port = re.search(r"0\.0\.0\.0:(\d+)", process.stdout.readline())
    assert port is not None

    def here(text: str) -> str:
        return text.replace("10.0.0.9", "127.0.0.1").replace("3307", port[1]).replace("…", "hush")

    begin_as(case, mysql_server)
    try:
        mysql_server.execute(here(SQL[0]))
        executed = str(PublishedLog(out).view().executed)
        assert mysql_server.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)") == [(0,)]
        assert held(case, mysql_server) == expected(case)
        printed = b""
        for client in clients:
            program, *options = shlex.split(here(client))
            run = [str(PREFIX / "bin" / program), "--no-defaults", *options]
            printed = subprocess.run(run, cwd=tmp_path / "raw", capture_output=True, check=True, timeout=60).stdout
        assert {path.name: path.read_bytes() for path in (tmp_path / "raw").iterdir()} == written(out)
        assert executed in printed.decode()
    finally:
        mysql_server.execute("STOP REPLICA; RESET REPLICA ALL")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143


@pytest.mark.mysql
def test_the_page_on_rows_runs(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """What its mysqldump takes is what the cluster's tables hold."""
    page = (PAGES / "snapshots-for-clients.md").read_text()
    serve, dump = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].splitlines()
    case = case_named("two-nodes")
    (tmp_path / "merged").symlink_to(merged("two-nodes"))
    program = str(Path(sys.executable).with_name("binlog-merge"))
    replay = [program, "replay", "--from", "merged", "--to", f"duckdb://{tmp_path / 'shop.db'}", "--temporal", "text"]
    subprocess.run(replay, check=True, cwd=tmp_path, capture_output=True, timeout=120)
    command = [program, *shlex.split(serve)[1:], "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        assert process.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert port is not None
        (schema,) = {name.partition(".")[0] for name in expected(case)}
        name, *options = shlex.split(dump.replace("3307", port[1]).replace("shop", schema))
        taken = [str(PREFIX / "bin" / name), "--no-defaults", *options, "--set-gtid-purged=OFF"]
        done = subprocess.run(taken, check=False, capture_output=True, timeout=60)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert process.returncode == 143
    mysql_server.apply(done.stdout)
    assert held(case, mysql_server) == expected(case)
