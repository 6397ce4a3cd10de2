"""Spark reads a merged log as `binlog_merge.changes` does: batch, with filters, as a stream that is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo
from pyspark.sql.pandas.types import from_arrow_schema

import binlog_merge
from binlog_merge.ask.lists import schema_rows
from binlog_merge.errors import ConversionFailed, OutsideLog
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.removal import remove
from binlog_merge.log.log import Log
from binlog_merge.log.question import Question, select
from binlog_merge.log.read import batches
from binlog_merge.spark.source_options import Options, fitted_to, pushed, schema_of
from binlog_merge.spark.source_reader import BinlogReader, BinlogStream
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge, written

pytestmark = [pytest.mark.spark]
TABLE = "shop.orders"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    merge(copy_case(case_named("three-nodes-online-ddl"), folder / "case", max_size(60_000)), folder / "merged")
    assert len(written(folder / "merged")) > 3
    return folder / "merged"


def frame(spark: Any, merged: Path, **options: str) -> Any:
    reader = spark.read.format("binlog").option("table", TABLE)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(merged))


def plain(rows: Any) -> list[Any]:
    return [row.asDict(recursive=True) for row in rows]


def said(merged: Path, **options: Any) -> list[dict[str, Any]]:
    found = binlog_merge.changes(merged, TABLE, **options).read_all().to_pylist()
    for row in found:
        row["commit_time"] = row["commit_time"].replace(tzinfo=None)
    return found


def test_a_batch_has_every_change_in_order_of_its_parts(spark: Any, merged: Path) -> None:
    expected = said(merged)
    for size in ("20000", "100000000"):
        found = frame(spark, merged, partitionBytes=size)
        assert (found.rdd.getNumPartitions() > len(written(merged))) == (size == "20000")
        assert plain(found.collect()) == expected
    narrow = frame(spark, merged, where="id = 12", op="update", columns="id,price", start=expected[40]["order_key"])
    assert plain(narrow.collect()) == said(
        merged, where="id = 12", op="update", columns=["id", "price"], start=expected[40]["order_key"]
    )
    own = spark.read.format("binlog").option("table", TABLE).schema("op string, after struct<id: bigint>")
    assert plain(own.load(str(merged)).collect()) == [
        {"op": row["op"], "after": row["after"] and {"id": row["after"]["id"]}} for row in expected
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "op = 'delete' AND commit_tso > {tso}",
        "after.id IN (12, 13)",
        "order_key <= '{key}'",
        *(
            pytest.param(condition, marks=pytest.mark.extended)
            for condition in ("commit_tso = {tso}", "before.id < 20", "after.customer = 'smith'")
        ),
        # What is no order key narrows nothing; the comparisons are those above.
        pytest.param("order_key < 'abc'", marks=pytest.mark.extended),
        pytest.param("order_key >= ''", marks=pytest.mark.extended),
    ],
)
def test_filters_narrow_what_is_read_and_change_no_answer(condition: str, spark: Any, merged: Path) -> None:
    rows = said(merged)
    condition = condition.format(tso=rows[len(rows) // 2]["commit_tso"], key=rows[9]["order_key"])
    answers = []
    for wanted in ("false", "true"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", wanted)
        try:
            answers.append(plain(frame(spark, merged).filter(condition).collect()))
        finally:
            spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert answers[0] == answers[1]
    assert answers[0] or "smith" in condition


def test_all_tables_are_rows_with_json_text(spark: Any, tmp_path: Path) -> None:
    merge(case_named("all-types") / "cluster.yaml", tmp_path)
    expected = binlog_merge.changes(tmp_path).read_all().to_pylist()
    for row in expected:
        row["commit_time"] = row["commit_time"].replace(tzinfo=None)
    every = spark.read.format("binlog").load(str(tmp_path))
    assert plain(every.collect()) == expected
    metadata = spark.read.format("binlog").schema("table string, op string").load(str(tmp_path))
    assert plain(metadata.collect()) == [{"table": row["table"], "op": row["op"]} for row in expected]
    condition = "schema = 'types' AND table IN ('ints', 'times') AND op <> 'delete'"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = plain(spark.read.format("binlog").load(str(tmp_path)).filter(condition).collect())
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert found == [row for row in expected if row["table"] in ("ints", "times") and row["op"] != "delete"] != []
    numbers = every.filter("table = 'ints'").selectExpr("variant_get(parse_json(after), '$.bu', 'decimal(20,0)')")
    assert max(row[0] for row in numbers.collect() if row[0] is not None) == 2**64 - 1


TYPED = ("all-types", "reshape-numbers", "reshape-strings", "reshape-charsets", "reshape-others", "reshape-temporal",
         "reshape-clamp", "reshape-pads")  # fmt: skip
ZERO_DATES = ("reshape-temporal", "reshape-clamp", "reshape-pads")


# Typed dates and all types, dates as text, and character sets; the values of the others are tests/ask's.
KEPT = ("all-types",)


@pytest.mark.parametrize("name", keeping(KEPT, TYPED))
def test_every_type_is_as_in_changes(name: str, spark: Any, tmp_path: Path) -> None:
    """Whose values are held against a server's, in tests/ask; where there is a date like 0000-00-00, as text."""
    merge(case_named(name) / "cluster.yaml", tmp_path)
    every = binlog_merge.changes(tmp_path, fields=["schema", "table"]).read_all().to_pylist()
    for table in sorted({(row["schema"], row["table"]) for row in every}):
        temporal: Any = "text" if table[1] == "times" or name in ZERO_DATES else "typed"
        reader = spark.read.format("binlog").option("table", ".".join(table)).option("temporal", temporal)
        rows = binlog_merge.changes(tmp_path, table, temporal=temporal, fields=["op", "before", "after"]).read_all()
        found = plain(reader.load(str(tmp_path)).select("op", "before", "after").collect())
        assert [_in_python(row, rows.schema) for row in found] == rows.to_pylist(), table


def _in_python(value: Any, kind: Any) -> Any:
    """Return a value of Spark's as Arrow has it: bytes, and decimals of more than 38 digits, which are texts."""
    if isinstance(value, dict):
        return {name: _in_python(item, kind.field(name).type) for name, item in value.items()}
    if isinstance(value, str) and pa.types.is_decimal256(kind):
        return Decimal(value)
    return bytes(value) if isinstance(value, bytearray) else value


def test_nodes_that_are_not_merged_have_the_rows_of_the_merged_log(spark: Any, merged: Path) -> None:
    """Each task reads a file that a merge would write; Spark is told the types before."""
    cluster = str(merged.parent / "case" / "cluster.yaml")
    one = spark.read.format("binlog").option("endOfInput", "true").option("table", TABLE).load(cluster)
    assert one.schema == frame(spark, merged).schema and one.rdd.getNumPartitions() == len(written(merged))
    assert plain(one.collect()) == said(merged)
    start = said(merged)[500]["order_key"]
    every = spark.read.format("binlog").option("endOfInput", "true").option("start", start)
    every = every.schema("schema string, table string, position bigint, after string").load(cluster)
    expected = binlog_merge.changes(merged, start=start, fields=["schema", "table", "position", "after"]).read_all()
    assert plain(every.collect()) == expected.to_pylist() != []
    assert every.rdd.getNumPartitions() < len(written(merged))
    for options, reason in (
        ({"table": "shop.nope"}, "the cluster has no table shop.nope; it has shop.orders"),
        ({"partitionBytes": "1"}, "it is of a merged log"),
        ({"endOfInput": "yes"}, "it is true or false"),
    ):
        with pytest.raises(Exception, match=reason):
            spark.read.format("binlog").options(**options).load(cluster)
    with pytest.raises(Exception, match="a stream reads a merged log"):
        spark.readStream.format("binlog").load(cluster).writeStream.format("noop").start().processAllAvailable()


def test_conditions_that_mysql_understands_otherwise_are_left_to_spark(tmp_path: Path) -> None:
    merge(case_named("all-types") / "cluster.yaml", tmp_path)
    binlog, taken = Log(tmp_path), set()
    for table in sorted({(row["schema"], row["table"]) for row in schema_rows(binlog)}):
        asked = select(binlog, Question(table))
        for column in asked.versions.tables()[-1].columns:
            filters = [[EqualTo(("after", column.name), value)] for value in (5, "5")]
            if any(pushed(binlog, one, asked).where is not None for one in filters):
                taken.add(column.type.name)
    assert {"int", "bigint", "decimal", "varchar"} <= taken
    assert {"year", "json", "float", "date", "varbinary"}.isdisjoint(taken)
    asked = select(binlog, Question("types.reals"))
    name = next(c.name for c in asked.versions.tables()[-1].columns if c.type.name == "decimal")
    small = pushed(binlog, [EqualTo(("after", name), Decimal("1E-7"))], asked).where
    assert small is not None and small.text.endswith(" = 0.0000001")  # 1E-7 would be a DOUBLE


def test_transactions_and_schemas(spark: Any, merged: Path) -> None:
    transactions = spark.read.format("binlog.transactions").load(str(merged)).orderBy("rank").collect()
    assert [row["rank"] for row in transactions] == list(range(1, len(transactions) + 1))
    keys = [row["order_key"] for row in transactions if row["kind"] == "rows"]
    assert set(keys) >= {row["order_key"] for row in said(merged)} and keys == sorted(keys)
    schemas = spark.read.format("binlog.schemas").load(str(merged)).orderBy("version").collect()
    assert [len(row["columns"]) for row in schemas if row["table"] == "orders"] == [6, 7, 7]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"where": "nope = 1"}, "has no column nope"),
        ({"table": "shop.nope"}, "the log has no table shop.nope"),
        ({"wher": "id = 1"}, "there is no such option"),
        ({"stop": "x"}, "is no place in a log"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], reason: str, spark: Any, merged: Path) -> None:
    with pytest.raises(Exception, match=reason):
        frame(spark, merged, **options).collect()


def test_a_stream_stops_before_rows_with_columns_that_it_does_not_have(merged: Path) -> None:
    binlog = Log(merged)
    altered = next(row for row in schema_rows(binlog) if row["table"] == "orders" and len(row["columns"]) == 7)
    early = select(binlog, Question(TABLE, stop=altered["order_key"]))
    asked = fitted_to(early, from_arrow_schema(early.schema))
    later = replace(asked, versions=select(binlog, Question(TABLE)).versions)
    assert list(batches(binlog, later))
    with pytest.raises(ConversionFailed, match="which it did not have when the read began"):
        list(batches(binlog, replace(later, first=early.last + 1, last=binlog.last_rank)))


def test_a_stream_goes_on_in_its_own_log_alone(merged: Path) -> None:
    options = Options.of({"path": str(merged), "table": TABLE})
    schema = from_arrow_schema(select(Log(merged), Question(TABLE)).schema)
    row = said(merged)[30]
    start = {"rank": int(row["gtid"].rpartition(":")[2]), "order_key": row["order_key"]}
    end = BinlogStream(options, schema).latestOffset()
    assert BinlogStream(options, schema).partitions(start, end)
    with pytest.raises(OutsideLog, match="it is another log"):
        BinlogStream(options, schema).partitions(start | {"order_key": "1" * 54}, end)


def test_a_stream_needs_no_start_that_was_removed_once_it_has_a_checkpoint(merged: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(merged, out)
    row, later = said(out)[0], said(out)[-60]
    options = Options.of({"path": str(out), "table": TABLE, "start": row["order_key"]})
    schema = from_arrow_schema(select(Log(out), Question(TABLE)).schema)
    assert BinlogStream(options, schema).initialOffset()["rank"] + 1 == int(row["gtid"].rpartition(":")[2])
    manifest = Manifest.load(out)
    assert len(manifest.state.files) > 1
    remove(out, manifest, manifest.state.files[:1], {})
    stream = BinlogStream(options, schema)
    assert schema_of(options) == schema
    start = {"rank": int(later["gtid"].rpartition(":")[2]), "order_key": later["order_key"]}
    assert stream.partitions(start, stream.latestOffset(start))
    first = f"{Log(out).cluster_uuid}:{Log(out).state.first_rank}"
    for asked in (stream.initialOffset, lambda: stream.partitions({"rank": 3, "order_key": ""}, start)):
        with pytest.raises(OutsideLog, match="the stream has not read it") as raised:
            asked()
        assert f"start {first}" in str(raised.value.remedy)
    with pytest.raises(OutsideLog, match="not in the log any more"):
        BinlogReader(options, schema)


LIMITED = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark asks for a part of what there is: 4.1 does not."""
LIMIT = {"maxFilesPerTrigger": "1"} if LIMITED else {}
STREAM = f"""
import sys
from binlog_merge.spark.session import create_session
merged, out = sys.argv[1:]
spark = create_session("local[1]")
frame = (spark.readStream.format("binlog").option("table", "shop.orders").options(**{LIMIT})
         .option("fields", "order_key,position,row,op,after").load(merged))
query = (frame.writeStream.format("parquet").option("path", out).option("checkpointLocation", out + ".at")
         .trigger(processingTime="0 seconds").start())
query.awaitTermination()
"""


def read_on(spark: Any, merged: Path, out: Path) -> None:
    """Stream all that is published into `out`, from where the stream has stopped."""
    stream = spark.readStream.format("binlog").option("table", TABLE).options(**LIMIT)
    stream = stream.option("fields", "order_key,position,row,op,after").load(str(merged)).writeStream
    query = stream.format("parquet").option("path", str(out)).option("checkpointLocation", f"{out}.at").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def assert_each_change_once(spark: Any, merged: Path, out: Path) -> None:
    found = spark.read.parquet(str(out)).select("order_key", "position", "row").collect()
    expected = [(row["order_key"], row["position"], row["row"]) for row in said(merged)]
    assert sorted(tuple(row) for row in found) == sorted(expected)


def test_a_stream_goes_on_where_it_has_stopped(spark: Any, merged: Path, tmp_path: Path) -> None:
    """While more is published: each change once."""
    cluster, log, out = merged.parent / "case" / "cluster.yaml", tmp_path / "merged", tmp_path / "out"
    rows = said(merged)
    merge(cluster, log, stop_tso=rows[len(rows) // 2]["commit_tso"], end_of_input=False)
    read_on(spark, log, out)
    assert_each_change_once(spark, log, out)
    merge(cluster, log)
    read_on(spark, log, out)
    assert len(said(log)) == len(rows)
    assert_each_change_once(spark, log, out)


@pytest.mark.extended  # without a kill: the one above
def test_a_stream_that_is_killed_and_begun_again_has_each_change_once(spark: Any, merged: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", STREAM, str(merged), str(out)], start_new_session=True)
    try:
        until = time.monotonic() + 120
        while len(list((tmp_path / "out.at" / "commits").glob("[0-9]*"))) < 1 + LIMITED:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    read_on(spark, merged, out)
    assert_each_change_once(spark, merged, out)
