"""zlib and zstd: mysqlbinlog, the mysql client and a replica get the same as without."""

import socket
import subprocess
import zlib
from pathlib import Path

import pytest

from binlog_merge.protocol.compression import Algorithm, Compression, FrameHeader
from binlog_merge.protocol.handshake import CACHING_SHA2, OFFERED, Greeting, HandshakeResponse, prove
from binlog_merge.protocol.packets import Capability, PacketHeader
from tests.binlog_server.merged import merged
from tests.binlog_server.running import PASSWORD, USER, remote_mysqlbinlog, serving
from tests.binlog_server.test_replica import _caught_up, _replica
from tests.merge_e2e.cases import case_named
from tests.merge_e2e.local import written
from tests.merge_e2e.tables import begin_as, expected, held
from tests.mysql_server import PREFIX, MySqlServer

CASE = "two-nodes"


@pytest.mark.mysql
@pytest.mark.parametrize("algorithm", ["zlib", "zstd", "zlib,zstd,uncompressed"])
def test_mysqlbinlog_and_mysql_get_the_same_compressed(algorithm: str, tmp_path: Path) -> None:
    out = merged(CASE)
    files = written(out)
    with serving(out) as running:
        compressed = f"--compression-algorithms={algorithm}"
        remote_mysqlbinlog(running.port, "--read-from-remote-server", "--raw", compressed, *files, folder=tmp_path)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
        client = [str(PREFIX / "bin" / "mysql"), "--no-defaults", "--host=127.0.0.1", f"--port={running.port}", "-N"]
        client += [f"--user={USER}", f"--password={PASSWORD}", compressed, "--zstd-compression-level=7"]
        for sql in ("SHOW BINARY LOGS", f"SELECT '{'x' * 100_000}' AS x"):
            answer = subprocess.run([*client, "-e", sql], capture_output=True, check=True, timeout=60).stdout
            assert answer == subprocess.run([*client[:-2], "-e", sql], capture_output=True, check=True).stdout


@pytest.mark.mysql
@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_a_replica_follows_compressed(algorithm: str, mysql_server: MySqlServer) -> None:
    out, case = merged("all-types"), case_named("all-types")
    begin_as(case, mysql_server)
    place = f"SOURCE_AUTO_POSITION=1, SOURCE_SSL=0, SOURCE_COMPRESSION_ALGORITHMS='{algorithm}'"
    with serving(out) as source, _replica(mysql_server, source, place):
        _caught_up(mysql_server, out)
        assert [client.session.compression for client in source.server._clients] == [(Algorithm(algorithm), 3)]
        assert held(case, mysql_server) == expected(case)


def _frames(sock: socket.socket) -> bytes:
    """Return what comes until the server ends the connection."""
    data = b""
    while piece := sock.recv(1 << 16):
        data += piece
    return data


@pytest.mark.parametrize(
    ("algorithm", "header", "frame"),
    [
        (Algorithm.ZLIB, FrameHeader(5, 0, 100), b"bytes"),
        (Algorithm.ZLIB, FrameHeader(0, 0, 1000), zlib.compress(bytes(100_000_000))),
        (Algorithm.ZSTD, FrameHeader(5, 0, 100), b"bytes"),
        (Algorithm.ZSTD, FrameHeader(9, 0, 100), bytes.fromhex("28b52ffdc0ffffffff")),  # claims to have exabytes
    ],
)
def test_frames_that_do_not_hold_what_they_say_end_the_connection(
    algorithm: Algorithm, header: FrameHeader, frame: bytes
) -> None:
    bit = {Algorithm.ZLIB: Capability.CLIENT_COMPRESS, Algorithm.ZSTD: Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM}
    both = Capability.CLIENT_COMPRESS | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
    with serving(merged(CASE)) as running, socket.create_connection(("127.0.0.1", running.port), 20) as sock:
        with sock.makefile("rb") as file:
            nonce = Greeting.parse(file.read(PacketHeader.parse(file.read(4)).length)).nonce
            proof = prove(CACHING_SHA2, PASSWORD, nonce)
            flags = (OFFERED & ~both) | bit[algorithm]
            response = HandshakeResponse(Capability(flags), USER, proof, plugin=CACHING_SHA2).pack()
            sock.sendall(PacketHeader(len(response), 1).pack() + response)
            assert [file.read(PacketHeader.parse(file.read(4)).length)[:1] for _ in "12"] == [b"\1", b"\0"]
            sock.sendall(FrameHeader(len(frame), 0, header.expanded).pack() + frame)
        answer = _frames(sock)
        error = Compression(algorithm).expand(FrameHeader.parse(answer[:7]), answer[7:])
        assert error[4:7] == b"\xff\x85\x04", "1157"
        assert running.query("SELECT 1") == [(1,)]


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("size", [0, 1, 49, 50, 5000, (1 << 20) + 1])
def test_frames_are_expanded_again(algorithm: Algorithm, size: int) -> None:
    data = (b"some text %d " % size * (size // 10 + 1))[:size]
    one, other = Compression(algorithm, 99), Compression(algorithm)
    found, numbers = b"", []
    for packed in one.frames(memoryview(data), 255):
        header = FrameHeader.parse(packed[:7])
        assert header.length == len(packed) - 7
        numbers.append(header.sequence)
        found += other.expand(header, packed[7:])
    assert (found, numbers) == (data, [255, 0][: -(-size // (1 << 20))])
