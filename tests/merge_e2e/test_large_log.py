"""A host that has nothing but the configuration goes on with a log of 100 GB, and reads next to nothing of it.

The nodes, the open file and its tail are real. The closed file before it is told of as a thousand, of 100 MB each,
whose objects have holes; each has some of its transactions.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pymysql
import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from benchmarks.endurance import rss_by_command
from benchmarks.live import DOCUMENTS, OPTIONS
from benchmarks.ranges import Ranges
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.object_manifest import ObjectManifest
from binlog_merge.files.object_output import ObjectOutput
from tests.object_store import KEY, SECRET, Store, object_store
from tests.patience import Patience
from tests.store_proxy import StoreProxy
from tools.demo_live.bank import Bank, Move, run
from tools.demo_live.cluster import LiveCluster

pytestmark = [pytest.mark.extended, pytest.mark.heavy, pytest.mark.mysql]

FILES = 1000
FILE = 100_000_000
MOST_READ = 50_000_000
"""So many bytes may a new host read of the store, all its processes together."""
MOST_MEMORY = 700.0
"""What the largest of its processes may hold, in MiB."""
CREDENTIALS = (f"access_key={KEY}", f"secret_key={SECRET}")
SETTINGS = "output: {max-size: 24MiB}\nha: {lease: 4s}\n"


def _moves(number: int) -> list[Move]:
    return [Move(number % 100, -1), Move(100 + number % 100, 1)]


def _transfers(bank: Bank, first: int, count: int) -> None:
    with bank.sessions() as sessions:
        for number in range(first, first + count):
            assert bank.transfer(sessions, number, _moves(number))


def _documents(bank: Bank, first: int, megabytes: int) -> None:
    with bank.sessions() as sessions:
        for number in range(first, first + megabytes):
            run(
                sessions[number % 3],
                f"INSERT INTO bank_{number % 3}.documents_{number % 3} VALUES ({number}, "
                f"REPEAT(CHAR({97 + number % 26}), 1000000))",
            )
    bank.heartbeat()


def _newest(cluster: LiveCluster) -> int:
    try:
        return int(cluster.replica.query("SELECT MAX(transfer) FROM bank.accounts")[0][0] or 0)
    except pymysql.err.MySQLError:  # before the table is there
        return 0


def _thousand(file: OutputFile) -> list[OutputFile]:
    """Return a closed file as FILES of FILE bytes, each with some of its transactions."""
    assert file.last_rank - file.first_rank + 1 == file.transactions >= FILES
    each = file.transactions // FILES
    made = []
    for number in range(FILES):
        first = file.first_rank + number * each
        last = file.last_rank if number == FILES - 1 else first + each - 1
        made.append(
            replace(
                file,
                name=f"binlog.{number + 1:06d}",
                size=FILE,
                first_rank=first,
                last_rank=last,
                transactions=last - first + 1,
                sequence_number=last - first + 1,
                input_bytes=FILE,
            )
        )
    return made


def _told_as_large(store: Store, uri: str, holes: Path) -> int:
    """Tell of a log as one of 100 GB; return the bytes that its files have."""
    output = ObjectOutput(uri)
    output.load()
    closed, opened = output.state.files
    large = _thousand(closed)
    name = f"binlog.{FILES + 1:06d}"
    state = replace(output.state, files=(*large, replace(opened, name=name)))
    segments = {name: output.names.parts(opened)}
    note = output.names.remembered
    names = replace(output.names, files={}, segments=segments, remembered=note and replace(note, file=name))
    output.objects.delete([each for each in output.objects.below() if each.startswith(("manifest/", "binlog."))])
    bucket = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[store.bucket]
    with holes.open("w+b") as hole:
        hole.truncate(FILE)
        for file in large:
            output.objects.create(file.name, b"\xfebin")
            key = bucket.keys[f"merged/{file.name}"]
            key._value_buffer, key.contentsize = holes.open("rb"), FILE
    ObjectManifest(output.objects).append(state.folded(), names)
    return sum(file.size for file in state.files)


def test_a_host_with_nothing_goes_on_with_a_log_of_100_gb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with (
        object_store(front=Ranges) as store,
        LiveCluster.started(
            tmp_path / "a", ("accounts", "documents"), OPTIONS, merged=store.uri("merged", *CREDENTIALS)
        ) as first,
    ):
        with (first.home / "cluster.yaml").open("a") as config:
            config.write(SETTINGS)
        first.bank.create("documents", DOCUMENTS)
        with first.running() as process:
            first.follow()
            _transfers(first.bank, 1, FILES)
            _documents(first.bank, 1, 44)
            _transfers(first.bank, FILES + 1, 5)
            _until(lambda: _newest(first) == FILES + 5, process, first)
            _until(lambda: _closed_is_whole(first.merged), process, first)
            process.kill()
        opened = _open_size(first.merged)
        size = _told_as_large(store, first.merged, tmp_path / "holes")
        assert size > 100e9 and opened > 15e6
        shutil.rmtree(tmp_path / "tmp")
        (tmp_path / "tmp").mkdir()
        (tmp_path / "b").mkdir()
        shutil.copy(first.home / "cluster.yaml", tmp_path / "b")
        with StoreProxy(store) as proxy:
            second = replace(
                first, home=tmp_path / "b", merged=store.uri("merged", *CREDENTIALS, address=proxy.address)
            )
            begun = time.monotonic()
            with second.running() as process:
                _transfers(second.bank, FILES + 6, 5)
                _until(lambda: _newest(second) == FILES + 10, process, second)
                taken, memory = time.monotonic() - begun, rss_by_command(psutil.Process(process.pid))
            print(f"{taken:.1f} s, {proxy.read:,} bytes read, the open file has {opened:,}, RSS {memory}, {proxy.by}")
        assert proxy.read < MOST_READ
        assert max(memory.values()) < MOST_MEMORY


def _closed_is_whole(uri: str) -> bool:
    output = ObjectOutput(uri)
    output.load()
    return len(output.state.files) == 2 and output.state.files[0].name not in output.names.segments


def _open_size(uri: str) -> int:
    output = ObjectOutput(uri)
    output.load()
    assert output.state.open_file is not None
    return output.state.open_file.size


def _until(condition: Callable[[], Any], process: Any, cluster: LiveCluster) -> None:
    patience = Patience(180)
    while not condition():
        cluster.bank.heartbeat()
        assert process.poll() is None and patience.lasts(), cluster.log.read_text()[-5000:]
        time.sleep(0.2)
