"""The cache of compiled kernels: whatever lies there, kernels run, and what is damaged is made anew with a word."""

import os
import random
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest
from numba.core import caching

from binlog_merge.binlog.kernels import cache
from tests.effort import keeping

PROGRAM = """
import numpy as np
from binlog_merge.binlog.kernels import crc32, index_rows
data = np.frombuffer(b"123456789", np.uint8).copy()
out = np.zeros(1, np.uint32)
crc32.crc32_each(data, np.array([0, 9]), out)
assert out[0] == 0xCBF43926, hex(out[0])
import numba
print(numba.config.CACHE_DIR)
print(sum(crc32.crc32_each.stats.cache_hits.values()))
"""


MORE = """
import sys
loaded = "numba.np.linalg" in sys.modules
keys = np.array([[3, 1, 2, 1]], np.int64)
assert index_rows.sorted_places(keys).tolist() == [1, 3, 2, 0]
assert crc32.sound_to(np.zeros(64, np.uint8), 64) == -1
print("prepared" if loaded or "numba.np.linalg" in sys.modules else "loaded")
"""

BEYOND = """
out = np.zeros(2, np.uint32)
try:
    crc32.crc32_each(data, np.array([0, 9]), out)
except IndexError:
    print("IndexError")
"""


def _run(cache: Path | str | None, **environment: str) -> tuple[Path, int, str]:
    place, hits, err = _output(PROGRAM, cache, **environment)
    return Path(place), int(hits), err


def _output(program: str, cache: Path | str | None, **environment: str) -> list[str]:
    """Return the words that a program prints, and behind them what it says on stderr."""
    variables = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")} | environment
    if cache is not None:
        variables["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return [*done.stdout.split(), done.stderr]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    assert _run(folder)[1:] == (0, "")
    assert _run(folder)[1:] == (1, "")  # compiled once, read from then on
    return folder


def _files(folder: Path, suffix: str) -> list[Path]:
    found = sorted(folder.rglob(f"*{suffix}"))
    assert found
    return found


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("damage", "suffix"),
    keeping(
        [("flipped", ".nbc")],
        [
            ("empty", ".nbi"),
            ("flipped", ".nbc"),
            ("cut", ".nbc"),
            ("zeros", ".nbi"),
            ("text", ".nbi"),
            ("flipped", ".nbi"),
        ],
    ),
)
def test_a_damaged_file_is_made_anew(filled: Path, suffix: str, damage: str) -> None:
    rng = random.Random(f"{suffix}{damage}")
    for path in _files(filled, suffix):
        data = path.read_bytes()
        at = rng.randrange(len(data))
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        damaged = {"empty": b"", "cut": data[:at], "zeros": bytes(len(data)), "flipped": flipped, "text": b"hello"}
        path.write_bytes(damaged[damage])
    _, hits, told = _run(filled)
    assert hits == 0
    assert "is damaged and is compiled anew" in told
    if damage == "flipped":
        assert _run(filled)[1:] == (1, "")


@pytest.mark.heavy
def test_another_installation_finds_them(filled: Path, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "binlog_merge", tmp_path / "binlog_merge", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "binlog_merge" / "binlog" / "kernels").iterdir():
        os.utime(path, (1, 1))
    assert _run(filled, PYTHONPATH=str(tmp_path))[1:] == (1, "")


@pytest.mark.extended  # a damaged one: test_a_damaged_file_is_made_anew
@pytest.mark.heavy
def test_a_data_file_that_is_gone(filled: Path) -> None:
    for path in _files(filled, ".nbc"):
        path.unlink()
    assert _run(filled)[1:] == (0, "")
    assert _run(filled)[1:] == (1, "")


@pytest.mark.heavy
def test_kernels_that_are_there_and_others_that_are_compiled_beside_them(filled: Path) -> None:
    assert _output(PROGRAM + MORE, filled)[1:] == ["1", "prepared", ""]
    assert _output(PROGRAM + MORE, filled)[1:] == ["1", "loaded", ""]  # nothing is compiled, nor made ready for it


@pytest.mark.heavy
def test_a_kernel_that_is_there_checks_its_bounds_too(tmp_path: Path) -> None:
    for hits in ("0", "1"):
        assert _output(PROGRAM + BEYOND, tmp_path, NUMBA_BOUNDSCHECK="1")[1:] == [hits, "IndexError", ""]


@pytest.mark.heavy
def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "tmp").mkdir()
    temporary = {"TMPDIR": str(tmp_path / "tmp")}
    place, hits, told = _run(tmp_path / "file" / "cache", **temporary)
    assert "cannot be kept" in told and "NUMBA_CACHE_DIR" in told
    assert hits == 0
    assert place.is_relative_to(tmp_path / "tmp")
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert _run(tmp_path / "file" / "cache", **temporary)[1] == 1
    place.parent.chmod(0o777)  # anybody could have put machine code there
    other, hits, _ = _run(tmp_path / "file" / "cache", **temporary)
    assert other.parent != place.parent
    assert hits == 0
    assert not other.parent.exists()


def test_a_cache_that_has_all_kernels_may_be_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", numba.config.CACHE_DIR)
    monkeypatch.setattr(caching, "IndexDataCacheFile", caching.IndexDataCacheFile)
    monkeypatch.setattr(caching.FunctionCache, "load_overload", caching.FunctionCache.load_overload)
    monkeypatch.setattr(cache, "_is_writable", lambda folder: folder != tmp_path)
    cache.use(tmp_path)
    assert cache.folder() != tmp_path and not cache.is_filled()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    cache.note_filled()
    cache.use(tmp_path)
    assert cache.folder() == tmp_path and cache.is_filled()


def test_that_it_compiles_is_said_once_it_has_taken_a_while() -> None:
    told: list[str] = []
    teller = cache.Teller(lambda: told.append("word"), slow=0.02)
    for seconds in (0.0, 0.03, 0.0, 0.03):
        teller.on_start(None)
        time.sleep(seconds)
        teller.on_start(None)  # a function within it
        teller.on_end(None)
        teller.on_end(None)
    assert told == ["word"]
