"""Fixtures and markers that every test may use: a real MySQL, a real Spark session."""

import gc
import importlib
import multiprocessing.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.effort import effort
from tests.mariadb_server import MARIADB_MISSING, mariadb_available
from tests.mysql_server import MYSQL_MISSING, MySqlServer, mysql_available
from tests.processor import PROPERTY, Meter
from tests.room import write_into_memory
from tests.schedule import function_of, is_asked_for, longest_first, read_durations
from tests.source_code import nodes_of_modules

# Millions of objects stay alive in a test process; to look through all of them as often as usual takes a tenth of its
# time.
gc.set_threshold(200_000, 50, 100)

write_into_memory()

# Before any test has a TMPDIR of its own: the folder is kept for the process, and paths of sockets in it are limited.
multiprocessing.util.get_temp_dir()

# A shell lets what it starts with & ignore Ctrl-C, and that goes on to the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_meter = Meter()

# No test is about time, and the machine may be busy.
hypothesis.settings.register_profile(
    "binlog-merge",
    deadline=None,
    max_examples=effort(50, 100),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("binlog-merge")


def _need_mysql() -> None:
    """Skip the test where there is no MySQL; fail it where the run promised one."""
    if mysql_available():
        return
    if os.environ.get("CI") and os.environ.get("BINLOG_MERGE_REQUIRE_MYSQL") == "1":
        pytest.fail(f"BINLOG_MERGE_REQUIRE_MYSQL=1, but {MYSQL_MISSING}", pytrace=False)
    pytest.skip(MYSQL_MISSING)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    _meter.begin()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep what the test took of a core, tear-down included, for `make durations`."""
    if call.when == "teardown":
        item.user_properties.append((PROPERTY, f"{_meter.end():.2f}"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("mysql"):
        _need_mysql()
    if item.get_closest_marker("mariadb") and not mariadb_available():
        if os.environ.get("CI") and os.environ.get("BINLOG_MERGE_REQUIRE_MYSQL") == "1":
            pytest.fail(f"BINLOG_MERGE_REQUIRE_MYSQL=1, but {MARIADB_MISSING}", pytrace=False)
        pytest.skip(MARIADB_MISSING)
    if item.get_closest_marker("soak") and "soak" not in str(item.config.option.markexpr):
        pytest.skip("a long random run; select it with -m soak")
    if item.get_closest_marker("browser") and "browser" not in str(item.config.option.markexpr):
        pytest.skip("needs Chromium and playwright-core; run `make check-report`")
    if item.get_closest_marker("clients") and "clients" not in str(item.config.option.markexpr):
        pytest.skip("needs clients of other makers; run `make check-clients`")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--extended",
        action="append",
        default=[],
        metavar="PATH",
        help="also run the tests marked `extended` in this folder or file of tests; `all` for every one",
    )


@pytest.hookimpl(tryfirst=True)  # pytest-xdist's own hook reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out extended tests that are not asked for, and put what takes longest first.

    Where tests run side by side, what shares a Spark session, servers of a file of tests, or a case that is merged once
    for all of them stays together.
    """
    _leave_out_extended(config, items)
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        group = _group_of(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
            # pytest-xdist 3.8 hands groups on as the ends of node ids, but where pytest 9.2 no longer looks (its issue
            # 1386): then each worker starts a Spark session and every module's servers.
            if hasattr(item, "_id"):
                item._id = type(item._id).parse(f"{item.nodeid}@{group}")
    durations = read_durations()
    items[:] = longest_first(
        items,
        lambda item: _group_of(item) or item.nodeid,
        lambda item: durations.get(function_of(item.nodeid), 0.0),
    )


def _leave_out_extended(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = [*config.getoption("--extended"), *_named(config)]
    left_out = {
        item
        for item in items
        if item.get_closest_marker("extended") and not is_asked_for(item.nodeid.split("::")[0], asked)
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _named(config: pytest.Config) -> list[str]:
    """Return the files of tests that the command line names one by one: who names them wants them."""
    paths = (argument.split("::")[0] for argument in config.invocation_params.args)
    return [os.path.relpath(path, config.rootpath) for path in paths if path.endswith(".py")]


def _group_of(item: pytest.Item) -> str | None:
    for shared in ("spark", "two_machines"):
        if shared in item.fixturenames:
            return shared
    if any(found[-1].scope == "module" for found in item._fixtureinfo.name2fixturedefs.values()):
        return item.nodeid.split("::")[0]
    params = item.callspec.params if hasattr(item, "callspec") else {}
    case = params.get("case", params.get("config"))
    return case.name if isinstance(case, Path) else None


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_flushed() -> Iterator[None]:
    """Spare the disk: killed processes lose nothing that the system has taken, and no test takes the machine away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _json_is_as_published() -> Iterator[None]:
    """Hold what commands of this process print for machines against their JSON Schemas, whatever a test is about."""
    from binlog_merge.cli import main, output
    from tests import json_documents

    print_line, run = output.json_line, main._run
    asked: list[Any] = [()]

    def checked(document: Any) -> str:
        line = print_line(document)
        if (verb := json_documents.verb_of(asked[0])) is not None:
            json_documents.check(verb, line, output.wanted_output(asked[0]) == "jsonl")
        return line

    def noted(arguments: Any) -> int:
        asked[0] = arguments
        try:
            return run(arguments)
        finally:
            asked[0] = ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "json_line", checked)
        patch.setattr(main, "_run", noted)
        yield


@pytest.fixture(scope="module")
def source_code() -> Iterator[None]:
    """Let the tests of a file share the syntax of all modules: millions of objects, which slow other tests down."""
    yield
    nodes_of_modules.cache_clear()


@pytest.fixture(scope="session")
def _shared_mysql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    _need_mysql()
    with MySqlServer(tmp_path_factory.mktemp("mysql"), server_id=101) as server:
        yield server


@pytest.fixture
def mysql_server(_shared_mysql_server: MySqlServer) -> MySqlServer:
    """One server for the whole run, handed out without databases, prepared branches, or binlog history.

    A test that crashes it has failed by that; those behind it get it started again.
    """
    if not _shared_mysql_server.running:
        _shared_mysql_server.restart()
    _shared_mysql_server.drop_databases()
    _shared_mysql_server.execute("RESET BINARY LOGS AND GTIDS")
    return _shared_mysql_server


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark session made as the product makes its own."""
    try:
        session = importlib.import_module("binlog_merge.spark.session")
    except ModuleNotFoundError as error:
        pytest.skip(f"no Spark session to be had: {error}")
    started = session.create_session()
    yield started
    started.stop()


@pytest.fixture
def commands_share_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process take the run's Spark session, which goes on behind them."""
    monkeypatch.setattr("binlog_merge.spark.session.create_session", lambda *settings: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[Any]:
    from tests.object_store import object_store

    with object_store() as store:
        yield store


@pytest.fixture
def s3(_s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket of an S3 server on loopback, and credentials for it in the environment."""
    from tests.object_store import KEY, SECRET

    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    yield _s3_server
    for path in _s3_server.objects():
        _s3_server.client().delete_object(Bucket=_s3_server.bucket, Key=path)
