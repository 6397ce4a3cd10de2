"""Runs a job of Flink CDC's MySQL source until its process is ended; what it has read, as lines of JSON in the form of
Debezium's records, are the files of FOLDER/records, each from one checkpoint to the next.

A program of its own: it runs where JPype is, with the jars that tools/get-clients.sh has brought, and needs Java 17.
It goes on from the newest checkpoint in FOLDER if there is one: records come once, however the process has ended.
    python flink_job.py JARS FOLDER PORT STARTUP TABLE
"""

import sys
import threading
from pathlib import Path

import jpype  # type: ignore[import-not-found]

OPENED = ("java.lang", "java.util", "java.util.concurrent", "java.time", "java.net", "java.nio")


def newest_checkpoint(folder: Path) -> str | None:
    """Return where the newest complete checkpoint is."""
    found = sorted(folder.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns)
    return str(found[-1].parent) if found else None


def main(jars: Path, folder: Path, port: str, startup: str, table: str) -> None:
    """Run the job."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    (folder / "tmp").mkdir(exist_ok=True)  # who is killed leaves it
    jpype.startJVM(
        *opened,
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        classpath=sorted(map(str, jars.glob("*.jar"))),
        convertStrings=True,
    )
    flink, cdc = jpype.JPackage("org").apache.flink, jpype.JPackage("org").apache.flink.cdc
    settings = {
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "1 s",
    }
    if begun := newest_checkpoint(folder / "checkpoints"):
        settings["execution.state-recovery.path"] = begun
    environment = flink.streaming.api.environment.StreamExecutionEnvironment.createLocalEnvironment(
        2, flink.configuration.Configuration.fromMap(settings)
    )
    debezium = jpype.JClass("java.util.Properties")()
    debezium.setProperty("connect.keep.alive.interval.ms", "2000")  # how soon it sees that a server has gone
    numbers = jpype.JClass("java.util.HashMap")({"decimal.format": "numeric"})
    source = (
        cdc.connectors.mysql.source.MySqlSource.builder()
        .hostname("127.0.0.1")
        .port(int(port))
        .username("rep")
        .password("a secret")
        .databaseList(table.partition(".")[0])
        .tableList(table)
        .serverId("5400-5404")
        .serverTimeZone("UTC")
        .startupOptions(getattr(cdc.connectors.mysql.table.StartupOptions, startup)())
        .splitSize(10)
        .debeziumProperties(debezium)
        .deserializer(cdc.debezium.JsonDebeziumDeserializationSchema(False, numbers))
        .build()
    )
    files = flink.connector.file.sink.FileSink
    functions = flink.streaming.api.functions.sink.filesystem
    sink = (
        files.forRowFormat(
            flink.core.fs.Path((folder / "records").as_uri()),
            flink.api.common.serialization.SimpleStringEncoder("UTF-8"),
        )
        .withBucketAssigner(functions.bucketassigners.BasePathBucketAssigner())
        .withRollingPolicy(functions.rollingpolicies.OnCheckpointRollingPolicy.build())
        .build()
    )
    strategy = flink.api.common.eventtime.WatermarkStrategy.noWatermarks()
    environment.fromSource(source, strategy, "source").uid("source").sinkTo(sink).setParallelism(1).uid("files")
    client = environment.executeAsync("read")
    threading.Thread(target=lambda: (sys.stdin.read(), client.cancel()), daemon=True).start()
    client.getJobExecutionResult().get()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
