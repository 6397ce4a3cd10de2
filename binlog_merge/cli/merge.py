"""`binlog-merge merge`: merges the binlogs of many nodes into one."""

import importlib.util
import os
import shutil
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

from binlog_merge import without_pandas
from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log, verbosity
from binlog_merge.cli.options import (
    ConfiguredMerged,
    Output,
    commit_tso,
    local_path,
    option,
    place_of,
    taking,
)
from binlog_merge.cli.output import OutputFormat, check_many, document_of, print_json, print_result, size_of
from binlog_merge.cli.progress import LineProgress, progress
from binlog_merge.cli.verify import lines_of
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.pipeline.base.runner import Progress
    from binlog_merge.spark.job import MergeResult
    from binlog_merge.verification.whole import Verified

HELP = """Merge the binlogs of all nodes of a cluster into one.

The output directory, or s3://bucket/folder (or one at gs:// or az://), gets binlog.000001 and so on, binlog.index,
and a manifest. Run it again when the nodes have written more: it goes on where it stopped, and the files are the same,
byte for byte, as if everything had been merged at once.

\b
  binlog-merge merge --config cluster.yaml --merged merged/
  mysqlbinlog -v merged/binlog.000001 | less
  mysqlbinlog merged/binlog.0* | mysql -h target

A transaction is published once no node can add anything before it. The others are held back and counted. When the nodes
have stopped for good, --end-of-input publishes these, too.

With --stop-never it goes on, in rounds, as the nodes write, until Ctrl-C or SIGTERM (exit code 0). The files are the
same. A problem that may pass by itself (a full disk, a node's folder that is missing) is reported and retried for ten
minutes."""

Config = Annotated[
    Path,
    option("--config -c", "The cluster: nodes, routes, output.", "CLUSTER.YAML", local_path),
]
Work = Annotated[
    Path | None,
    option(
        "--work",
        "With a merged log in an object store: a local folder to work in; default: one in TMPDIR.",
        "DIR",
        local_path,
    ),
]
StartTso = Annotated[
    int | None,
    option("--start-tso", "Leave out what committed before this TSO.", "TSO", commit_tso("--start-tso")),
]
StopTso = Annotated[
    int | None,
    option("--stop-tso", "Stop before this commit TSO.", "TSO", commit_tso("--stop-tso")),
]
EndOfInput = Annotated[
    bool,
    option("--end-of-input", "The nodes will write no more: hold nothing back, report what is in doubt."),
]
FilterFile = Annotated[
    Path | None,
    option("--filter", "What comes out; `filter` of the configuration. See `filter test`.", "FILE", local_path),
]
StopNever = Annotated[
    bool, option("--stop-never", "Go on as the nodes write, in rounds of one process, until it is stopped.")
]
MinInterval = Annotated[
    float | None,
    option(
        "--min-interval",
        "With --stop-never: seconds from round to round at least; default: 0; in an object store 0.5.",
        min=0,
    ),
]
InDriver = Annotated[
    int | None,
    option(
        "--in-driver",
        "A stage that reads no more than this runs in this process, without a Spark job; default: 16MiB, and 0 "
        "for a merge that ends and is told of an engine: --master, --conf, the configuration's `spark`, spark-submit.",
        "SIZE",
        size_of,
    ),
]
LongestPause = Annotated[
    float | None,
    option(
        "--longest-pause",
        "With --stop-never: what may pass is tried again after a pause that grows up to this; default: 15.",
        "SECONDS",
        min=0,
    ),
]
Listen = Annotated[
    str | None,
    option("--listen", "With --stop-never: show the status over HTTP, as `status --listen`.", "[HOST:]PORT"),
]
Standby = Annotated[
    bool,
    option(
        "--standby",
        "With --stop-never and a lease: wait until somebody has led, and take over when that one is gone.",
    ),
]
CheckRows = Annotated[
    bool,
    option("--check-rows", "Walk all rows before they come out, those with a checksum too; `check-rows: always`."),
]
Verify = Annotated[
    bool,
    option("--verify", "Look through the files written, as `verify` does; its exit code is the command's."),
]
Master = Annotated[
    str | None,
    option(
        "--master",
        "The Spark master; default: spark-submit's, else `spark.master` of the configuration, else local[*].",
        "URL",
    ),
]
Conf = Annotated[list[str] | None, option("--conf", "A Spark option, K=V; may be given again.", "K=V")]
Verbose = Annotated[bool, option("--verbose -v", "List the statements that do not come out, each with its place.")]


@dataclass(frozen=True)
class MergeOptions:
    """The options of `merge`."""

    config: Config
    merged: ConfiguredMerged = None
    work: Work = None
    start_tso: StartTso = None
    stop_tso: StopTso = None
    end_of_input: EndOfInput = False
    stop_never: StopNever = False
    min_interval: MinInterval = None
    in_driver: InDriver = None
    longest_pause: LongestPause = None
    listen: Listen = None
    standby: Standby = False
    filter_file: FilterFile = None
    check_rows: CheckRows = False
    verify: Verify = False
    master: Master = None
    conf: Conf = None
    output: Output = OutputFormat.text
    verbose: Verbose = False
    log_level: LogLevel = Level.warning
    log_format: LogFormat = LineFormat.text


@taking(MergeOptions)
def merge(options: MergeOptions) -> None:
    """Merge the binlogs of all nodes of a cluster into one."""
    start_log(options.log_level, options.log_format)
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.config.uri import is_uri

    start, stop = options.start_tso, options.stop_tso
    if start is not None and stop is not None and start >= stop:
        raise ConfigError(f"--start-tso {start} is not below --stop-tso {stop}", remedy="nothing lies between")
    if options.stop_never:
        _check_goes_on(options)
        check_many(options.output, "a merge that goes on")
    else:
        _check_ends(options)
    spark_options(options.conf)
    cluster = MergeConfig.load(options.config)
    if options.filter_file is not None:
        cluster = cluster.model_copy(update={"filter": str(options.filter_file.absolute())})
    if options.check_rows:
        cluster = cluster.model_copy(update={"check_rows": "always"})
    place = place_of(cluster, options.merged)
    if options.work is not None and not is_uri(place):
        raise ConfigError(
            "--work is for a merged log in an object store", remedy="leave it out: a directory has its own"
        )
    if options.stop_never:
        from binlog_merge.config import held

        with held.holding():
            held.hold(file for file in (cluster.filter,) if file is not None)  # each round looks into it
            _run_on(cluster, place if is_uri(place) else Path(place), options)
    else:
        run(cluster, place if is_uri(place) else Path(place), options)


def run(config: "MergeConfig", out: str | Path, options: MergeOptions) -> "MergeResult":
    """Merge and print the result, also what was published before an error. Stops the Spark session it made.

    What `--verify` finds wrong in what this run wrote is the error. Without `--in-driver`, a stage may read IN_DRIVER
    bytes to run in this process, and 0 if Spark is asked for.
    """
    settings, verbose = spark_options(options.conf), verbosity(options.verbose) > 0
    check_engine(config, options.master, settings)
    from binlog_merge.spark.job import IN_DRIVER
    from binlog_merge.spark.job import merge as merge_job

    named = _names_engine(config, options.master, settings)
    in_driver = options.in_driver
    if in_driver is None:
        in_driver = 0 if named else IN_DRIVER
    try:
        with progress() as report, Session(config, options.master, settings, report) as spark:
            result = merge_job(
                spark,
                config,
                out,
                start_tso=options.start_tso,
                stop_tso=options.stop_tso,
                end_of_input=options.end_of_input,
                progress=report,
                work=options.work,
                in_driver=in_driver,
                at_need=in_driver > 0 and not named,
            )
    except MergeError as error:
        if error.result is not None and options.output is OutputFormat.text:
            print_result(error.result, redacted(str(out)), verbose)
        raise
    verified = _look_through(out, result, options.output) if options.verify else None
    if options.output is not OutputFormat.text:
        document = document_of(merged=redacted(str(out)), result=result)
        print_json(document if verified is None else {**document, "verified": verified.to_dict()})
    else:
        print_result(result, redacted(str(out)), verbose)
        if verified is not None:
            print("\n".join(lines_of(verified, redacted(str(out)))), flush=True)
    return result


def _run_on(config: "MergeConfig", out: str | Path, options: MergeOptions) -> None:
    """Merge in rounds until a signal stops it; with `--listen` the status is shown meanwhile."""
    settings = spark_options(options.conf)
    check_engine(config, options.master, settings)
    from binlog_merge.cli.follow import follow
    from binlog_merge.cli.status import status_shown
    from binlog_merge.config.uri import is_uri
    from binlog_merge.files.output import working_folder
    from binlog_merge.spark.job import IN_DRIVER, STORE_INTERVAL, Pace

    interval = options.min_interval
    pace = Pace((STORE_INTERVAL if is_uri(str(out)) else 0.0) if interval is None else interval)
    if options.longest_pause is not None:
        pace = replace(pace, last_pause=options.longest_pause)
    in_driver = IN_DRIVER if options.in_driver is None else options.in_driver
    shown = status_shown(config, working_folder(out, options.work), options.listen)
    with shown, Session(config, options.master, settings, LineProgress()) as spark:
        at_need = not _names_engine(config, options.master, settings)
        follow(
            *(spark, config, out, options.output, pace, in_driver, at_need, options.start_tso, options.work),
            options.standby,
        )


def check_engine(config: "MergeConfig", master: str | None, options: dict[str, str] | None) -> None:
    """Raise ConfigError if Spark is needed here and cannot start, before anything is written or much is imported."""
    from binlog_merge.spark.master import check_master, is_connect
    from binlog_merge.spark.session import active_session, is_submitted, master_for

    if master is not None:
        check_master(master)  # whether a session is active or not, it is the first thing wrong
    if active_session(master) is not None:
        return
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError("pyspark is not installed", remedy="merging runs on it: pip install binlog-merge anew")
    if is_submitted():
        return
    check_master(chosen := master_for(master, options or {}, config.spark))
    if not is_connect(chosen):
        check_java()


def _names_engine(config: "MergeConfig", master: str | None, options: dict[str, str] | None) -> bool:
    """Return whether the user, or who has started this process, asks for Spark: it then runs every stage."""
    from binlog_merge.spark.session import active_session, is_submitted

    return bool(master or options or config.spark) or is_submitted() or active_session(master) is not None


class Session:
    """The Spark session of a command: started at the first call, stopped with the command if it has started it.

    Kernels that are not there yet are compiled beside it, and Java's classes are archived behind it, for the next one.
    `archive`: where its own Java writes them in the end.
    """

    def __init__(
        self,
        config: "MergeConfig",
        master: str | None,
        options: dict[str, str] | None,
        report: "Progress",
        archive: Path | None = None,
    ) -> None:
        self._configured, self._master, self._options = config.spark, master, options or {}
        self._report, self._archive = report, archive
        self._started: Any = None
        self._archives = False

    def __call__(self) -> Any:
        """Return the session that is active already, else one as the command line and the configuration say."""
        from binlog_merge.pipeline.compiling import compiling
        from binlog_merge.spark.master import is_local
        from binlog_merge.spark.session import active_session, create_session, is_submitted, master_for

        if (active := active_session(self._master)) is not None:
            return active
        say("starting Spark")
        without_pandas.allow()  # pyspark wants to see its version
        local = not is_submitted() and is_local(master_for(self._master, self._options, self._configured))
        with compiling(self._report) if local else nullcontext():
            self._started = create_session(self._master, self._options, self._configured, self._archive)
        self._archives = local and self._archive is None
        return self._started

    def ends_well(self) -> bool:
        """Stop the session and wait for its Java; return whether that ended as it should."""
        from binlog_merge.spark.java import end_java

        started, self._started = self._started, None
        return started is not None and end_java(started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._started is not None:
            from binlog_merge.spark.java import stop

            with suppress(Exception):  # a signal to all processes has ended the JVM, too
                stop(self._started)
            if kind is None and self._archives:
                from binlog_merge.spark.java import make_beside

                make_beside()


def _check_ends(options: MergeOptions) -> None:
    """Raise ConfigError for options that only --stop-never knows."""
    for given, name, instead in (
        (options.min_interval, "--min-interval", "leave --min-interval out"),
        (options.longest_pause, "--longest-pause", "leave --longest-pause out"),
        (options.listen, "--listen", "see `binlog-merge status --help`"),
        (options.standby or None, "--standby", "leave --standby out"),
    ):
        if given is not None:
            raise ConfigError(f"{name} is for --stop-never", remedy=f"add --stop-never, or {instead}")


def _check_goes_on(options: MergeOptions) -> None:
    """Raise ConfigError for options that contradict --stop-never."""
    for given, name, remedy in (
        (options.stop_tso is not None, "--stop-tso", "leave one of them out"),
        (
            options.end_of_input,
            "--end-of-input",
            "stop it when the nodes have stopped, then merge with --end-of-input",
        ),
        (options.verify, "--verify", "`binlog-merge verify` looks through what is published, also while it grows"),
    ):
        if given:
            raise ConfigError(f"{name} is for a merge that ends, --stop-never for one that goes on", remedy=remedy)


def _look_through(out: str | Path, result: "MergeResult", output: OutputFormat) -> "Verified":
    """Verify the files that a merge wrote; an error has the merge's result."""
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.replay_options import history_of
    from binlog_merge.verification.whole import verify

    only = {file["name"] for file in result.files}
    try:
        with opened_log(out) as folder:
            return verify(Log(folder), history_of(folder.directory), only=only)
    except MergeError as error:
        error.result = result
        if output is OutputFormat.text:
            print_result(result, redacted(str(out)))
        raise


def spark_options(conf: list[str] | None) -> dict[str, str]:
    """Return --conf K=V options as a dict; the last one of a key counts."""
    options = {}
    for setting in conf or []:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--conf {setting}", remedy="write it as --conf spark.driver.memory=4g")
        options[key] = value
    return options


def check_java() -> None:
    """Raise ConfigError if there is no Java, before Spark reports that in fifty lines."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        raise ConfigError(
            f"no Java at {java}" if home else "no Java on the PATH",
            remedy="Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
        )
