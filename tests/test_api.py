"""What `from binlog_merge import ...` gives, and that importing the package costs nothing."""

import subprocess
import sys

import pytest

import binlog_merge

FAKE_JOB = (
    "import sys, types\n"
    "job = types.ModuleType('binlog_merge.spark.job'); job.merge = lambda *a, **k: (a, k); job.MergeResult = dict\n"
    "sys.modules['binlog_merge.spark'] = types.ModuleType('binlog_merge.spark')\n"
    "sys.modules['binlog_merge.spark.job'] = job\n"
)


def test_merge_is_the_function() -> None:
    program = "from binlog_merge import merge\nassert merge(1, end_of_input=True) == ((1,), {'end_of_input': True})\n"
    subprocess.run([sys.executable, "-c", "import binlog_merge\n" + FAKE_JOB + program], check=True)


def test_importing_the_package_loads_nothing() -> None:
    program = "import sys, binlog_merge; sys.exit(len([m for m in sys.modules if m.startswith('binlog_merge.')]))"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names() -> None:
    assert {"MergeConfig", "MergeError", "merge", "errors"} <= set(dir(binlog_merge))
    assert binlog_merge.MergeConfig.__module__ == "binlog_merge.config.merge_config"
    assert binlog_merge.errors.MergeError is binlog_merge.MergeError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = binlog_merge.nothing
