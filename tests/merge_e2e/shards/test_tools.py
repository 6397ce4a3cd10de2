"""What gh-ost, pt-online-schema-change, spirit and Vitess write, on real servers, and tables that are only called so.

A tool's copy is an ALTER of its table, and its tables do not come out; without a tool's sign every table does.
"""

import json
import os
import random
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from binlog_merge.errors import MergeError, ShardDdlStopped
from binlog_merge.pipeline.coordinate.shards.log import ShardLog
from binlog_merge.pipeline.coordinate.shards.log_json import log_from_json, log_to_json
from binlog_merge.pipeline.values import MergeResult
from snapshot_store.tso import OrderKey
from tests.effort import crossed, effort, keeping
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.renames import Story, T, Teller
from tests.merge_e2e.shards.stage import Played, Stage, columns_of, create_of, quoted, rows_of, tables
from tests.merge_e2e.shards.test_renames import grown

pytestmark = [pytest.mark.mysql]

ERROR = {"shard-doubts": "error", "ignore-schemas": ["_vt"]}
MODES = ("pessimistic", "optimistic")
BOTH = ("n1", "n2")


def gh_ost(alter: str, columns: str = "id, v", swap: str = "") -> str:
    """Return what gh-ost writes, as lines for each of NODE; `swap` is another way than the atomic one."""
    return f"""
        NODE CREATE /* gh-ost */ TABLE _t_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64))
        NODE INSERT /* gh-ost */ INTO _t_ghc (hint) VALUES ('state')
        NODE CREATE /* gh-ost */ TABLE _t_gho LIKE t
        NODE ALTER /* gh-ost */ TABLE _t_gho {alter}
        NODE INSERT /* gh-ost */ IGNORE INTO _t_gho ({columns}) SELECT {columns} FROM t
        """ + (swap or """
        NODE CREATE /* gh-ost */ TABLE _t_del (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'
        NODE DROP TABLE _t_del
        NODE RENAME /* gh-ost */ TABLE t TO _t_del, _t_gho TO t
        """) + """
        NODE rows t
        NODE DROP /* gh-ost */ TABLE IF EXISTS _t_ghc
        """  # fmt: skip


def pt_osc(alter: str, columns: str = "id, v", swap: str = "", made: str = T) -> str:
    """Return what pt-online-schema-change writes, as lines for each of NODE; `swap` is another way than the usual."""
    values = ", ".join(f"NEW.{name}" for name in columns.split(", "))
    trigger, replace = "NODE CREATE TRIGGER `pt_osc_{a}_t_", "REPLACE INTO `{a}`.`_t_new`"
    delete = "DELETE IGNORE FROM `{a}`.`_t_new` WHERE `{a}`.`_t_new`.`id` <=> OLD.`id`"
    on = "ON `{a}`.`t` FOR EACH ROW"
    return f"""
        NODE CREATE TABLE `{{a}}`.`_t_new` {made}
        NODE ALTER TABLE `{{a}}`.`_t_new` {alter}
        {trigger}del` AFTER DELETE {on} {delete}
        {trigger}upd` AFTER UPDATE {on} {replace} ({columns}) VALUES ({values})
        {trigger}ins` AFTER INSERT {on} {replace} ({columns}) VALUES ({values})
        NODE rows t
        NODE INSERT LOW_PRIORITY IGNORE INTO `{{a}}`.`_t_new` ({columns}) SELECT {columns} FROM t
        NODE ANALYZE TABLE `{{a}}`.`_t_new`
        """ + (swap or """
        NODE RENAME TABLE `{a}`.`t` TO `{a}`.`_t_old`, `{a}`.`_t_new` TO `{a}`.`t`
        NODE DROP TABLE IF EXISTS `{a}`.`_t_old`
        """) + """
        NODE DROP TRIGGER IF EXISTS `{a}`.`pt_osc_{a}_t_del`
        NODE DROP TRIGGER IF EXISTS `{a}`.`pt_osc_{a}_t_upd`
        NODE DROP TRIGGER IF EXISTS `{a}`.`pt_osc_{a}_t_ins`
        NODE rows t
        """  # fmt: skip


def spirit(alter: str, columns: str = "id, v", old: str = "_t_old", begun: str = "", waits: bool = False) -> str:
    """Return what spirit writes, as lines for each of NODE; `begun` is what an attempt before has written.

    `waits`: it has made a table, and waits until that is dropped.
    """
    sentinel = "CREATE TABLE IF NOT EXISTS `_spirit_sentinel` (id int NOT NULL PRIMARY KEY)"
    first, last = (f"NODE {sentinel}", "NODE DROP TABLE `_spirit_sentinel`") if waits else ("", "")
    return f"""{begun}
        NODE ANALYZE TABLE `t`
        NODE DROP TABLE IF EXISTS `_t_new`
        NODE CREATE TABLE `_t_new` LIKE `t`
        NODE ANALYZE TABLE `_t_new`
        NODE ALTER TABLE `_t_new` {alter}, ALGORITHM=COPY
        NODE ANALYZE TABLE `_t_new`
        NODE DROP TABLE IF EXISTS `_t_chkpnt`
        NODE CREATE TABLE `_t_chkpnt` (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, copier_watermark TEXT, checksum_watermark TEXT, binlog_name VARCHAR(255), binlog_pos INT, statement TEXT)
        {first}
        NODE INSERT IGNORE INTO `{{a}}`.`_t_new` ({columns}) SELECT {columns} FROM t
        NODE INSERT INTO `_t_chkpnt` (copier_watermark, statement) VALUES ('[]', 'ALTER TABLE t')
        NODE rows t
        NODE REPLACE INTO `{{a}}`.`_t_new` ({columns}) SELECT {columns} FROM t
        {last}
        NODE DROP TABLE IF EXISTS `{old}`
        NODE RENAME TABLE `t` TO `{old}`, `_t_new` TO `t`
        NODE DROP TABLE IF EXISTS `{old}`
        NODE DROP TABLE IF EXISTS `_t_chkpnt`
        NODE rows t
        """  # noqa: E501


_SIDECAR = """
        NODE CREATE DATABASE IF NOT EXISTS `_vt`
        NODE CREATE TABLE IF NOT EXISTS `_vt`.copy_state (`id` bigint unsigned NOT NULL AUTO_INCREMENT, `vrepl_id` int NOT NULL, `table_name` varbinary(128) NOT NULL, `lastpk` mediumblob DEFAULT NULL, PRIMARY KEY (`id`))
        NODE CREATE TABLE IF NOT EXISTS `_vt`.vreplication (`id` int NOT NULL AUTO_INCREMENT, `workflow` varbinary(1000), `source` mediumblob NOT NULL, `pos` longblob NOT NULL, `stop_pos` longblob, PRIMARY KEY (`id`))
        """  # noqa: E501
# Vitess gives a migration one UUID on all shards; the time, and the UUID of what it sets aside, are each shard's own.
VRP = "_vt_vrp_6ace8bcef73211ea87e9f875a4d24e90_2026120104010@_"


def hld(number: int, step: str = "hld") -> str:
    """Return the name of a table that Vitess sets aside, in a step on the way to its DROP TABLE."""
    return f"_vt_{step}_{number}ace8bcef73211ea87e9f875a4d24e9@_2026120204010@_"


def swap(number: int) -> str:
    """Return the cut-over of Vitess, with the sentry that it locks meanwhile."""
    sentry = hld(number)
    return f"""
        NODE CREATE TABLE IF NOT EXISTS `{sentry}` (id INT PRIMARY KEY)
        NODE DROP TABLE `{sentry}`
        NODE RENAME TABLE `t` TO `{sentry}`, `{VRP}` TO `t`, `{sentry}` TO `{VRP}`
        NODE rows t
        """


COPIED_BY_VITESS = f"""
        NODE BEGIN
        NODE INSERT INTO `{VRP}` (id, v) SELECT id, v FROM t
        NODE INSERT INTO `_vt`.copy_state (lastpk, vrepl_id, table_name) VALUES ('fields', 1, 't')
        NODE COMMIT
        NODE rows t
        NODE BEGIN
        NODE REPLACE INTO `{VRP}` (id, v) SELECT id, v FROM t
        NODE UPDATE `_vt`.vreplication SET pos = CONCAT(pos, '+')
        NODE COMMIT
        """


def vitess(alter: str, copied: str = COPIED_BY_VITESS, behind: str = "") -> str:
    """Return what Vitess's online DDL writes by VReplication, as lines for each of NODE, and `behind` the swap."""
    return f"""{_SIDECAR}
        NODE CREATE TABLE `{VRP}` (`id` int NOT NULL, `v` varchar(20), PRIMARY KEY (`id`))
        NODE ALTER TABLE `{VRP}` {alter}
        NODE ALTER TABLE `{VRP}` AUTO_INCREMENT=12@
        NODE INSERT INTO `_vt`.vreplication (workflow, source, pos) VALUES ('6ace8bce', '', '')
        {copied}
        NODE ANALYZE TABLE `{VRP}`
        {swap(6)}{behind}"""


REMOVED = f"""
        NODE RENAME TABLE `{VRP}` TO `{hld(7)}`
        NODE RENAME TABLE `{hld(7)}` TO {hld(7, "evc")}
        NODE RENAME TABLE `{hld(7, "evc")}` TO {hld(7, "drp")}
        NODE DROP TABLE `{hld(7, "drp")}`
        NODE rows t
        """
REVERTED = f"""
        NODE BEGIN
        NODE REPLACE INTO `{VRP}` (id, v) SELECT id, v FROM t
        NODE UPDATE `_vt`.vreplication SET pos = CONCAT(pos, '+')
        NODE COMMIT
        {swap(8)}"""
TWO_STEP = """
        NODE RENAME /* gh-ost */ TABLE t TO _t_del
        NODE RENAME /* gh-ost */ TABLE _t_gho TO t
        """
DROP_SWAP = """
        NODE SET foreign_key_checks = 0
        NODE DROP TABLE IF EXISTS `{a}`.`t`
        NODE RENAME TABLE `{a}`.`_t_new` TO `{a}`.`t`
        NODE SET foreign_key_checks = 1
        """
ROLLED_BACK = """
        NODE RENAME /* gh-ost */ TABLE t TO _t_del
        NODE RENAME /* gh-ost */ TABLE _t_del TO t
        NODE RENAME /* gh-ost */ TABLE t TO _t_del, _t_gho TO t
        """

_OF_T = pt_osc("ADD COLUMN w INT DEFAULT 5").replace("_t_new", "__t_new").replace("_t_old", "__t_old")
UNDERSCORE = re.sub(r"(?<![A-Za-z0-9_])t(?![A-Za-z0-9_])", "_t", _OF_T)


@dataclass(frozen=True)
class Shape:
    """What a tool, or someone, does to the table t of each of some nodes, of whose name @ is the number.

    `ddl` are the statements that come out behind the CREATE TABLE, by their first words; `hidden` the tables that are
    named in the result, as "tool: table of table".
    """

    name: str
    script: str
    ddl: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    made: tuple[str, ...] = (f"NODE CREATE TABLE t {T}", "NODE rows t")

    def story(self, nodes: tuple[str, ...], together: bool) -> Story:
        """Return the story on some nodes: one after the other, or statement by statement."""
        made = [(n, line) for line in self.made for n in nodes]
        lines = [line.strip() for line in self.script.strip().splitlines() if line.strip()]
        one_by_one = [(n, line) for n in nodes for line in lines]
        ways = [*made, *([(n, line) for line in lines for n in nodes] if together else one_by_one)]
        told = (f"{n}{line[4:].replace('@', n[1:])}" for n, line in ways)
        return Story(f"{self.name} {len(nodes)} {together}", "\n".join(told))


GHC, GHO = "gh-ost: _t_ghc", "gh-ost: _t_gho of t"
NEW, OLD = "pt-online-schema-change: _t_new of t", "pt-online-schema-change: _t_old of t"
DEL = "gh-ost: _t_del of t"
COPY, CHECKPOINT, COPIED = "spirit: _t_new of t", "spirit: _t_chkpnt", "spirit: _t_old of t"
COPY_VT = f"Vitess: {VRP} of t"
BEGUN = """
        NODE CREATE TABLE `_t_new` LIKE `t`
        NODE ALTER TABLE `_t_new` ADD COLUMN w INT, ALGORITHM=COPY
        NODE CREATE TABLE `_t_chkpnt` (id int NOT NULL AUTO_INCREMENT PRIMARY KEY, copier_watermark TEXT, checksum_watermark TEXT, binlog_position TEXT, statement TEXT)
        NODE INSERT IGNORE INTO `{a}`.`_t_new` (id, v) SELECT id, v FROM t
        NODE rows t"""  # noqa: E501
TOOLS = (
    Shape("gh-ost", gh_ost("ADD COLUMN w INT DEFAULT 5"), ("ALTER TABLE",), (GHC, GHO, "gh-ost: _t_del", DEL)),
    Shape("gh-ost in two steps", gh_ost("MODIFY v VARCHAR(40)", swap=TWO_STEP), ("ALTER TABLE",), (GHC, GHO, DEL)),
    Shape("gh-ost, a first step taken back", gh_ost("ADD COLUMN w INT", swap=ROLLED_BACK), ("ALTER TABLE",), (
        GHC, GHO, DEL, DEL,
    )),
    Shape("pt-osc", pt_osc("ADD COLUMN w INT DEFAULT 5"), ("ALTER TABLE",), (NEW, OLD)),
    Shape("pt-osc, an older one", pt_osc("ADD COLUMN w INT DEFAULT 5", made="LIKE t"), ("ALTER TABLE",), (NEW, OLD)),
    Shape("pt-osc of a table called _t", UNDERSCORE, ("CREATE TABLE", "ALTER TABLE"), (
        "pt-online-schema-change: __t_new of _t", "pt-online-schema-change: __t_old of _t",
    ), (f"NODE CREATE TABLE t {T}", f"NODE CREATE TABLE _t {T}", "NODE rows _t")),
    Shape("pt-osc, drop and swap", pt_osc("ADD COLUMN w INT DEFAULT 5", swap=DROP_SWAP), ("ALTER TABLE",), (NEW,)),
    Shape("spirit", spirit("ADD COLUMN w INT DEFAULT 5"), ("ALTER TABLE",), (COPY, CHECKPOINT, COPIED)),
    Shape("spirit, begun again", spirit("MODIFY v VARCHAR(40)", begun=BEGUN), ("ALTER TABLE",), (
        COPY, COPY, CHECKPOINT, CHECKPOINT, COPIED,
    )),
    Shape("spirit, the old table kept for a while", spirit("ADD KEY k (v)", old="_t_old_20261201_010203"), (
        "ALTER TABLE",), (COPY, CHECKPOINT, "spirit: _t_old_20261201_010203 of t",
    )),
    Shape("spirit, the swap deferred", spirit("MODIFY v VARCHAR(40)", waits=True), ("ALTER TABLE",), (
        COPY, CHECKPOINT, "spirit: _spirit_sentinel", COPIED,
    )),
    Shape("Vitess", vitess("ADD COLUMN `w` int DEFAULT 5"), ("ALTER TABLE",), (COPY_VT, f"Vitess: {hld(6)}", COPY_VT)),
    Shape("Vitess, and what it has set aside is removed", vitess("MODIFY COLUMN `v` varchar(40)", behind=REMOVED), (
        "ALTER TABLE",), (COPY_VT, f"Vitess: {hld(6)}", COPY_VT, *(
            f"Vitess: {hld(7, step)} of t" for step in ("hld", "evc", "drp")
        ),
    )),
    Shape("Vitess, reverted", vitess("ADD COLUMN `w` int DEFAULT 5", behind=REVERTED), ("ALTER TABLE", "ALTER TABLE"), (
        COPY_VT, f"Vitess: {hld(6)}", COPY_VT, f"Vitess: {hld(8)}", COPY_VT,
    )),
    Shape("Vitess, a table without rows", vitess("ADD KEY `k` (`v`)", copied=""), ("ALTER TABLE",), (
        COPY_VT, f"Vitess: {hld(6)}", COPY_VT,
    ), (f"NODE CREATE TABLE t {T}",)),
    Shape("Vitess, given up", f"""{_SIDECAR}
        NODE CREATE TABLE `{VRP}` {T}
        NODE ALTER TABLE `{VRP}` ADD COLUMN `w` int
        NODE RENAME TABLE `{VRP}` TO `{hld(7)}`
        """, (), (f"Vitess: {VRP}", f"Vitess: {hld(7)}")),
    Shape("Vitess, a DROP TABLE", f"""
        NODE CREATE TABLE u {T}
        NODE rows u
        NODE RENAME TABLE `u` TO `{hld(9)}`
        NODE rows t
        """, ("CREATE TABLE", "DROP TABLE"), (f"Vitess: {hld(9)} of u",)),
    Shape("pt-osc, given up", pt_osc("ADD COLUMN w INT", swap="NODE DROP TABLE IF EXISTS `{a}`.`_t_new`"), (), (NEW,)),
)  # fmt: skip
ORDINARY = (
    Shape("ordinary names", f"""
        NODE CREATE TABLE _prices_old {T}
        NODE rows _prices_old
        NODE CREATE TABLE _orders_new {T}
        NODE rows _orders_new
        NODE CREATE TABLE _t_del {T}
        NODE rows _t_del
        NODE CREATE TABLE _t_gho LIKE t
        NODE rows _t_gho
        """, ("CREATE TABLE",) * 4),
    Shape("a table as pt-osc makes it, with rows", f"""
        NODE CREATE TABLE _t_new {T}
        NODE ALTER TABLE _t_new ADD COLUMN w INT DEFAULT 7
        NODE rows _t_new
        NODE rows t
        """, ("CREATE TABLE",)),
    Shape("a table as pt-osc makes it, renamed", f"""
        NODE CREATE TABLE _t_new {T}
        NODE RENAME TABLE _t_new TO u
        NODE rows u
        """, ("CREATE TABLE",)),
    Shape("a nightly reload", f"""
        NODE CREATE TABLE _t_new {T}
        NODE rows _t_new
        NODE RENAME TABLE t TO _t_old, _t_new TO t
        NODE rows t
        """, ("CREATE TABLE", "RENAME TABLE")),
    Shape("a swap without a tool", """
        NODE CREATE TABLE _t_gho LIKE t
        NODE ALTER TABLE _t_gho ADD COLUMN w INT
        NODE rows _t_gho
        NODE RENAME TABLE t TO _t_del, _t_gho TO t
        NODE rows t
        NODE rows _t_del
        """, ("CREATE TABLE", "ALTER TABLE", "RENAME TABLE")),
    Shape("a copy without a sign, one node after the other", """
        NODE CREATE TABLE `_t_new` LIKE `t`
        NODE ALTER TABLE `_t_new` ADD COLUMN w INT DEFAULT 5, ALGORITHM=COPY
        NODE INSERT IGNORE INTO `{a}`.`_t_new` (id, v) SELECT id, v FROM t
        NODE rows t
        NODE RENAME TABLE `t` TO `_t_old`, `_t_new` TO `t`
        NODE DROP TABLE IF EXISTS `_t_old`
        NODE rows t
        """, ("CREATE TABLE", "RENAME TABLE")),
    Shape("a table as Vitess makes it, with rows of its own", f"""
        NODE CREATE TABLE `{VRP}` {T}
        NODE rows `{VRP}`
        NODE ALTER TABLE `{VRP}` ADD COLUMN w INT DEFAULT 7
        NODE rows `{VRP}`
        NODE rows t
        """, ("CREATE TABLE",)),
    Shape("a table that is put aside", """
        NODE RENAME TABLE t TO _t_old
        NODE rows _t_old
        """, ("RENAME TABLE",)),
)  # fmt: skip
WAYS = ((("n1",), False), (BOTH, False), (BOTH, True))
Told = Callable[[Shape, int], tuple[int, Played]]


TOLD = [
    (shape, way)
    for shape in (*TOOLS, *ORDINARY)
    for way in range(len(WAYS))
    if shape in TOOLS or way != 1  # one node after the other has dropped what the next one makes
]
# Both nodes statement by statement is the way in which most can go wrong; each tool also one node after the other.
KEPT = [(shape, way) for shape, way in TOLD if way == 2 or (way == 1 and shape.name in ("gh-ost", "pt-osc", "spirit"))]

MERGED = crossed((*TOOLS, *ORDINARY), MODES)


@pytest.fixture(scope="module")
def told(stage: Stage) -> Told:
    """Tell each shape in each way, once."""

    @cache
    def tell(shape: Shape, way: int) -> tuple[int, Played]:
        number = 600 + TOLD.index((shape, way))
        return number, Teller(stage, shape.story(*WAYS[way]), number).tell()

    return tell


def there(stage: Stage, number: int, tool: bool) -> dict[tuple[str, str], tuple[set[str], list[str]]]:
    """Return what must be on the target: the nodes' tables, of a tool's story without those that the tool has left."""
    found: dict[tuple[str, str], tuple[set[str], list[str]]] = {}
    for node in stage.nodes.values():
        for name in tables(node):
            if name[0].startswith(f"r{number:03d}") and not (tool and name[1].startswith("_") and name[1] != "_t"):
                shapes, rows = found.setdefault(name, (set(), []))
                shapes.add(create_of(node, name))
                rows += map(repr, rows_of(node, name, sorted(columns_of(node, name))))
    return found


def compare(stage: Stage, number: int, tool: bool, undecided: Collection[tuple[str, str]] = ()) -> None:
    """Compare the target's tables with those of the nodes, but for those of which it is not known what they are."""
    wanted = {name: what for name, what in there(stage, number, tool).items() if name not in undecided}
    assert not any(rows for name, (_, rows) in there(stage, number, tool).items() if name in undecided)
    assert [name for name in tables(stage.target) if name[0].startswith(f"r{number:03d}")] == sorted(wanted)
    for name, (shapes, rows) in wanted.items():
        assert {create_of(stage.target, name)} == shapes, quoted(name)
        found = rows_of(stage.target, name, sorted(columns_of(stage.target, name)))
        assert sorted(map(repr, found)) == sorted(rows), quoted(name)


def statements(out: Any) -> list[str]:
    """Return the first words of the statements in a merged log, but for CREATE DATABASE."""
    from tests.merge_e2e.test_shards import ddl

    plain = (sql.replace("/* gh-ost */", "") for sql in ddl(out) if not sql.startswith("CREATE DATABASE"))
    return [" ".join(sql.split()[:2]).upper() for sql in plain]


@pytest.mark.parametrize(
    ("shape", "mode", "way"),
    keeping(
        [(shape, mode, way) for shape, mode in MERGED for way in range(len(WAYS)) if (shape, way) in KEPT],
        [(shape, mode, way) for shape, mode in MERGED for way in range(len(WAYS)) if (shape, way) in TOLD],
    ),
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_the_target_has_what_the_nodes_have(stage: Stage, told: Told, shape: Shape, mode: str, way: int) -> None:
    number, played = told(shape, way)
    stage.target.drop_databases()
    path = stage.configuration(f"tools-{mode}-{number}", [played], mode, sections=ERROR)
    out = path.parent / "out"
    result = merge(path, out)
    assert (result.warnings, result.locks, result.waiting) == ((), (), 0)
    stage.carry_out(out)
    compare(stage, number, shape in TOOLS)
    hidden = (f"{node} {text.replace('@', node[1:])}" for text in shape.hidden for node in WAYS[way][0])
    assert sorted(hidden_in(result)) == sorted(hidden)
    if mode == "pessimistic":
        assert statements(out)[: 1 + len(shape.ddl)] == ["CREATE TABLE", *shape.ddl]


def hidden_in(result: MergeResult) -> list[str]:
    """Return the tables that the result names as hidden."""
    return [
        f"{one['node']} {one['tool']}: {one['table']}" + (f" of {one['of']}" if one["of"] else "")
        for one in result.hidden
    ]


@pytest.mark.extended  # test_renames cuts, too
@pytest.mark.parametrize("mode", keeping(["pessimistic"], MODES))
def test_merges_cut_into_runs_come_to_the_same(stage: Stage, told: Told, mode: str) -> None:
    played = [told(shape, way)[1] for shape, way in TOLD]
    one = stage.configuration(f"tools-{mode}-whole", played, mode, sections=ERROR)
    merge(one, one.parent / "out", partitions=3)
    whole = written(one.parent / "out")
    path = stage.configuration(f"tools-{mode}-cut", played, mode, sections=ERROR)
    assert grown(path, whole, random.Random(1), effort(6, 40)) == whole


LOSSES = (
    # (what the copy loses, the ALTER, what is written before it is copied, what is said)
    ("unique", "ADD UNIQUE KEY u (v)", "INSERT INTO t VALUES (901, 'a10'), (902, 'z')", "has 3 rows where it has 4"),
    ("collation", "ADD UNIQUE KEY u (v)", "INSERT INTO t VALUES (901, 'A10'), (902, 'z')", "has 3 rows where it has 4"),
    ("check", "ADD CHECK (id < 900)", "INSERT INTO t VALUES (901, 'x')", "has 2 rows where it has 3"),
)


@pytest.mark.parametrize("mode", keeping(["pessimistic"], MODES))  # what is counted knows no mode
@pytest.mark.parametrize(("name", "alter", "row", "said"), LOSSES)
def test_a_copy_that_has_lost_rows_is_a_doubt(
    stage: Stage, name: str, alter: str, row: str, said: str, mode: str
) -> None:
    number = 700 + 10 * [one[0] for one in LOSSES].index(name) + MODES.index(mode)
    shape = Shape(name, f"NODE {row}\n" + gh_ost(alter), ())
    played = Teller(stage, shape.story(("n1",), False), number).tell()
    path = stage.configuration(f"lost-{name}-{mode}", [played], mode, sections=ERROR)
    with pytest.raises(ShardDdlStopped, match=said) as raised:
        merge(path, path.parent / "out")
    assert "RENAME" in raised.value.message and "delete the rows of" in (raised.value.remedy or "")
    stage.configuration(f"lost-{name}-{mode}", [played], mode, sections={**ERROR, "shard-doubts": "warn"})
    assert [w for w in merge(path, path.parent / "out").warnings if said in w]


MAYBE = (
    ("not null", "MODIFY v VARCHAR(20) NOT NULL DEFAULT ''", "has v NOT NULL: the copy may have other values"),
    ("narrower", "MODIFY v VARCHAR(5)", "does not take all values: the copy may have other values"),
    ("unique, all kept", "ADD UNIQUE KEY u (v)", ""),
    ("wider", "MODIFY v VARCHAR(80), ADD KEY k (v), ADD w INT NOT NULL DEFAULT 0", ""),
)


@pytest.mark.parametrize(("name", "alter", "said"), MAYBE)
def test_a_copy_that_may_have_other_values_is_a_warning(stage: Stage, name: str, alter: str, said: str) -> None:
    number = 730 + 2 * [one[0] for one in MAYBE].index(name)
    shape = Shape(name, gh_ost(alter), ())
    played = Teller(stage, shape.story(("n1",), False), number).tell()
    path = stage.configuration(f"maybe-{number}", [played], "pessimistic", sections=ERROR)
    warnings = merge(path, path.parent / "out").warnings
    assert [said in warning for warning in warnings] == ([True] if said else [])
    stage.target.drop_databases()
    stage.carry_out(path.parent / "out")
    compare(stage, number, True)


@pytest.mark.parametrize(("alter", "warned"), [("ADD UNIQUE KEY u (v)", True), ("ADD KEY k (v)", False)])
def test_rows_from_before_the_log_are_not_counted(stage: Stage, alter: str, warned: bool) -> None:
    """Then a warning says what the copy may have lost, if there is something."""
    number = 760 + warned
    Teller(stage, Story(f"before {number}", f"n1 CREATE TABLE t {T}\nn1 rows t"), number).tell()
    script = "\n".join(f"n1{line.strip()[4:]}" for line in gh_ost(alter).strip().splitlines() if line.strip())
    played = Teller(stage, Story(f"since {number}", script), number, begun=True, counter=100).tell()
    path = stage.configuration(f"before-{number}", [played], "pessimistic")
    base = path.parent / "base.sql"
    base.write_text(f"CREATE DATABASE r{number}a; CREATE TABLE r{number}a.t {T};")
    sections = {"base": {"physical": {"n1": "base.sql"}}, **ERROR}
    stage.configuration(f"before-{number}", [played], "pessimistic", sections=sections)
    warnings = merge(path, path.parent / "out").warnings
    assert ["whether the copy has all rows is not known" in warning for warning in warnings] == [True] * warned


def test_an_output_of_a_version_that_went_by_names_goes_on() -> None:
    """What it has left out stays out, until it is dropped."""
    log = ShardLog()
    text = json.loads(log_to_json(log))
    del text["tools"]
    key = OrderKey(1, 0, 1, 1).text()
    text["ghosts"] = [
        [key, "n1", "a", "_t_gho", ""], [key, "n1", "a", "_t_gho", "ALTER TABLE _t_gho ADD w INT"],
        [key, "n1", "a", "other", ""],
    ]  # fmt: skip
    (found,) = log_from_json(json.dumps(text)).tools.tables
    assert (found.name, found.of, found.changes) == (("a", "_t_gho"), ("a", "t"), ("ALTER TABLE _t_gho ADD w INT",))


# The attack: random tables with the names that tools give, with and without tools.

NAMES = ("_t_old", "_t_new", "_t_gho", "_t_del", "_t_ghc", "__t_new", "_x_old", "_x_new", "x", "t_new", "_t")
AS_T = ("(id INT PRIMARY KEY, v VARCHAR(20))", "LIKE t", "(id INT PRIMARY KEY, v VARCHAR(30), z INT DEFAULT 3)")


def random_story(seed: int) -> str:
    """Return the lines of a story of one node, with NODE for its name."""
    rng = random.Random(seed)
    lines, there, columns = ["NODE rows t"], ["t"], 0
    for _ in range(rng.randint(4, 9)):
        free = [name for name in NAMES if name not in there]
        others = [name for name in there if name != "t"]
        way = rng.choice(("make", "make", "fill", "fill", "move", "swap", "drop", "alter", "tool"))
        if way == "make" and free:
            there.append(rng.choice(free))
            lines.append(f"NODE CREATE TABLE {there[-1]} {rng.choice(AS_T)}")
        elif way == "fill":
            lines.append(f"NODE rows {rng.choice(there)}")
        elif way == "move" and free:
            old, new = rng.choice(others or ["t"]), rng.choice(free)
            lines.append(f"NODE RENAME TABLE {old} TO {new}")
            there[there.index(old)] = new
        elif way == "swap" and others and free and "t" in there:
            new, old = rng.choice(others), rng.choice(free)
            lines.append(f"NODE RENAME TABLE t TO {old}, {new} TO t")
            there[there.index(new)] = old
        elif way == "drop" and others:
            there.remove(rng.choice(others))
            lines.append(f"NODE DROP TABLE {({*others} - {*there}).pop()}")
        elif way == "alter":
            columns += 1
            lines.append(f"NODE ALTER TABLE {rng.choice(there)} ADD COLUMN c{columns} INT DEFAULT {columns}")
        elif way == "tool" and "t" in there and not {"_t_gho", "_t_ghc", "_t_del", "_t_new", "_t_old"} & {*there}:
            columns += 1
            alter = f"ADD COLUMN c{columns} INT DEFAULT {columns}"
            script = gh_ost(alter, swap=rng.choice(("", TWO_STEP))) + "NODE DROP TABLE _t_del"
            lines += [line.strip() for line in script.strip().splitlines() if line.strip()]
        if "t" not in there:
            lines.append(f"NODE CREATE TABLE t {AS_T[0]}")
            there.append("t")
    return "\n".join(lines)


def attack(stage: Stage, seed: int, number: int) -> None:
    """Play a story on one node, merge it in both modes, whole and in runs, and compare everything."""
    story = Shape(f"names {seed}", random_story(seed), ()).story(("n1",), False)
    played = Teller(stage, story, number).tell()
    for mode in MODES:
        path = stage.configuration(f"names-{seed}-{mode}", [played], mode, sections=ERROR)
        result = merge(path, path.parent / "out")
        undecided = {(str(one["schema"]), str(one["table"])) for one in result.hidden if one["tool"] is None}
        stage.target.drop_databases()
        stage.carry_out(path.parent / "out")
        compare(stage, number, False, undecided)
        whole = written(path.parent / "out")
        path = stage.configuration(f"names-{seed}-{mode}-cut", [played], mode, sections=ERROR)
        assert grown(path, whole, random.Random(seed), 6) == whole


@pytest.mark.extended  # each kind of such a table has a shape above
@pytest.mark.parametrize("seed", keeping([1], range(effort(3, 20))))
def test_random_tables_with_the_names_of_tools(stage: Stage, seed: int) -> None:
    attack(stage, seed, 800 + seed)


@pytest.mark.soak
def test_random_tables_for_as_long_as_wanted(stage: Stage) -> None:
    end, first, failed = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600")), 1000, []
    for seed in range(first, first + 1000):
        if time.monotonic() > end:
            break
        try:
            attack(stage, seed, 900)
        except (AssertionError, MergeError, RuntimeError) as error:
            failed.append(f"seed {seed}: {error}\n{random_story(seed)}")
        stage.clear()
    assert not failed, "\n\n".join(failed)
