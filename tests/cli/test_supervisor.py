"""Real processes under supervision: restarted, given up, ended together, and dead when their parent is."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from binlog_merge.cli.child import Component
from binlog_merge.cli.supervisor import Notice, Policy, Supervisor
from binlog_merge.config import held
from binlog_merge.heartbeat import Role

QUICK = Policy(first_pause=0.01, longest_pause=0.05, settled=1e9)

WAITS = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nprint('up', flush=True)\n"
WAITS += "while True: time.sleep(60)"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n"
DEAF += "while True: time.sleep(60)"


def _python(name: str, program: str, *arguments: object) -> Component:
    return Component(name, (sys.executable, "-c", program, *map(str, arguments)))


def _times(name: str, counter: Path, ends: list[str], last: str = WAITS) -> Component:
    """Return a component whose processes run `ends`, one after the other, and then `last`."""
    program = (
        f"import os, signal, sys, time\nfrom pathlib import Path\ncounter = Path({str(counter)!r})\n"
        "done = int(counter.read_text()) if counter.exists() else 0\ncounter.write_text(str(done + 1))\n"
        f"exec(({[*ends, last]!r})[done])"
    )
    return _python(name, program)


class _Run:
    """A supervisor, and all that it said; `when` maps a line or event to what is to be done then."""

    def __init__(self, *components: Component, grace: float = 60, policy: Policy = QUICK) -> None:
        self.lines: list[tuple[str, str]] = []
        self.notices: list[Notice] = []
        self.when: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self.supervisor = Supervisor(components, self._line, self._notice, grace, policy)

    def _line(self, component: str, line: str) -> None:
        self.lines.append((component, line))
        self._look()

    def _notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._look()

    def _look(self) -> None:
        for one in [one for one in self.when if one[0]()]:
            self.when.remove(one)
            one[1]()

    def stopped_when(self, condition: Callable[[], bool], code: int = 143) -> "_Run":
        self.when.append((condition, lambda: self.supervisor.stop(code)))
        return self

    def events(self, of: str | None = None) -> list[str]:
        return [n.event for n in self.notices if of is None or n.values.get("of") == of]

    def ups(self) -> int:
        return sum(line == "up" for _, line in self.lines)

    def pids(self) -> list[int]:
        return [n.values["pid"] for n in self.notices if n.event == "started"]


def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_all_end_well_when_asked() -> None:
    run = _Run(_python("a", WAITS), _python("b", WAITS))
    assert run.stopped_when(lambda: run.ups() == 2).supervisor.run() == 0
    assert run.events() == ["started", "started", "stopping"]
    assert all(map(_gone, run.pids()))


@pytest.mark.parametrize(
    "end", ["sys.exit(0)", "sys.exit(1)", "sys.exit(31)", "sys.exit(143)", "os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_a_component_that_dies_is_started_again_and_the_others_live_on(end: str, tmp_path: Path) -> None:
    run = _Run(_times("a", tmp_path / "n", [end] * 3), _python("b", WAITS))
    assert run.stopped_when(lambda: run.ups() == 2).supervisor.run() == 0
    assert run.events("a") == ["started", "ended", "started", "ended", "started", "ended", "started"]
    assert run.events("b") == ["started"]
    accidents = [n.values["accidents"] for n in run.notices if n.event == "ended"]
    assert accidents == [1, 2, 3]


def test_what_no_restart_can_help_ends_all_with_its_code(tmp_path: Path) -> None:
    run = _Run(_times("a", tmp_path / "n", ["sys.exit(31)", "sys.exit(26)"]), _python("b", WAITS))
    assert run.supervisor.run() == 26
    assert run.events("a") == ["started", "ended", "started", "gave up"]
    assert "a ended after" in run.notices[-1].text and "exit code 26 (ddl-not-understood)" in run.notices[-1].text
    assert all(map(_gone, run.pids()))


def test_internal_errors_that_come_again_end_all(tmp_path: Path) -> None:
    run = _Run(_python("a", "import sys; sys.exit(70)"))
    assert run.supervisor.run() == 70
    assert run.events("a").count("started") == QUICK.most_internal


@pytest.mark.parametrize("second", [False, True])
def test_what_does_not_end_is_killed_after_the_grace_or_when_asked_again(second: bool) -> None:
    run = _Run(_python("deaf", DEAF), _python("b", WAITS), grace=60 if second else 0.2)
    run.stopped_when(lambda: run.ups() == 2, 130)
    if second:
        run.stopped_when(lambda: "stopping" in run.events(), 130)
    assert run.supervisor.run() == 130
    assert run.events()[-1] == "killed"
    assert "deaf" in run.notices[-1].values["of"]
    assert all(map(_gone, run.pids()))


def test_a_final_code_stands_where_another_had_to_be_killed(tmp_path: Path) -> None:
    ready = f"import time, pathlib\nwhile not pathlib.Path({str(tmp_path / 'up')!r}).exists(): time.sleep(0.01)\n"
    run = _Run(_python("deaf", DEAF), _python("a", f"{ready}import sys; sys.exit(2)"), grace=0.2)
    run.when.append((lambda: run.ups() == 1, (tmp_path / "up").touch))
    assert run.supervisor.run() == 2
    assert run.events()[-1] == "killed"


def test_what_a_dead_process_has_left_is_gone_before_the_next_begins(tmp_path: Path) -> None:
    """As a JVM whose Python was killed."""
    leaves = (
        "import subprocess\nleft = subprocess.Popen(['sleep', '1000'])\n"
        f"Path({str(tmp_path / 'left')!r}).write_text(str(left.pid))\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    seen: list[bool] = []
    run = _Run(_times("a", tmp_path / "n", [leaves]))
    run.when.append((lambda: run.ups() == 1, lambda: seen.append(_gone(int((tmp_path / "left").read_text())))))
    assert run.stopped_when(lambda: run.ups() == 1).supervisor.run() == 0
    assert seen == [True]


def test_all_lines_arrive_whole_and_as_text_whatever_their_bytes() -> None:
    program = (
        "import os\nos.write(1, b'one\\r\\ntwo \\xff')\nos.write(2, b'x' * 200_000 + b'\\n')\nos.write(1, b'\\nlast')\n"
        "import sys; sys.exit(2)"
    )
    run = _Run(_python("a", program))
    assert run.supervisor.run() == 2
    lines = [line for name, line in run.lines if name == "a"]
    assert [line for line in lines if not line.startswith("x")] == ["one", "two \\xff", "last"]
    assert sum(len(line) for line in lines if line.startswith("x")) == 200_000


def test_an_error_of_the_log_ends_all_and_is_raised() -> None:
    def fails(component: str, line: str) -> None:
        raise BrokenPipeError

    notices: list[Notice] = []
    supervisor = Supervisor([_python("a", WAITS), _python("b", WAITS)], fails, notices.append, 60, QUICK)
    with pytest.raises(BrokenPipeError):
        supervisor.run()
    assert all(_gone(n.values["pid"]) for n in notices if n.event == "started")


def test_a_program_that_is_not_there_is_tried_again() -> None:
    run = _Run(Component("a", ("/nowhere/program",)))
    assert run.stopped_when(lambda: run.events("a").count("ended") == 3).supervisor.run() == 0


def test_a_stop_from_a_signal_handler_wakes_it() -> None:
    run = _Run(_python("a", WAITS))
    before = signal.signal(signal.SIGUSR1, lambda *_: run.supervisor.stop(143))
    main = threading.main_thread().ident
    assert main is not None
    try:
        run.when.append((lambda: run.ups() == 1, lambda: signal.pthread_kill(main, signal.SIGUSR1)))
        assert run.supervisor.run() == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


SUPERVISES = """
import sys
from binlog_merge.config import held
from binlog_merge.cli.child import Component
from binlog_merge.cli.supervisor import Supervisor
components = [Component(name, (sys.executable, "-c", sys.argv[1])) for name in "ab"]
Supervisor(components, lambda *_: print("up", flush=True),
           lambda n: print(n.values.get("pid", ""), flush=True), 60).run()
"""


def test_nothing_outlives_a_supervisor_that_is_killed() -> None:
    """Not even what would not end by SIGTERM."""
    command = [sys.executable, "-c", SUPERVISES, DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = [process.stdout.readline().strip() for _ in range(4)]
        pids = [int(word) for word in words if word != "up"]
        assert len(pids) == 2 and not any(map(_gone, pids))
        os.kill(process.pid, signal.SIGKILL)
    _until(lambda: all(map(_gone, pids)))


def test_what_is_started_for_a_parent_that_is_dead_does_not_begin(tmp_path: Path) -> None:
    from binlog_merge.cli import bound

    stranger = 2**22 + 1  # no process id
    command = [sys.executable, "-I", str(bound.__file__), str(stranger), "/bin/touch", str(tmp_path / "begun")]
    assert subprocess.run(command, check=False).returncode == 1
    assert not (tmp_path / "begun").exists()


BEATS = "import time\nfrom binlog_merge.heartbeat import HEARTBEAT\nHEARTBEAT.works()\nprint('up', flush=True)\n"
LIVES = f"{BEATS}while True:\n    HEARTBEAT.beat()\n    time.sleep(0.1)"


def test_a_process_that_stops_is_killed_and_started_again_and_one_that_lives_is_not(tmp_path: Path) -> None:
    stops = f"{BEATS}os.kill(os.getpid(), signal.SIGSTOP)"
    still_starts = stops.replace("works()", "beat()")
    policy = replace(QUICK, silence=3.0)
    stopping = _times("a", tmp_path / "n", [stops, still_starts], LIVES)
    run = _Run(stopping, _python("b", LIVES), _python("c", WAITS), policy=policy)
    run.stopped_when(lambda: run.events("a").count("started") == 3 and run.ups() == 5)
    assert run.supervisor.run() == 0
    assert run.events("a") == [*["started", "hung", "ended"] * 2, "started"]
    assert [n.values["code"] for n in run.notices if n.event == "ended"] == [-9, -9]
    assert run.events("b") == ["started"] and run.events("c") == ["started"], "c has given no sign, ever"


def test_a_component_that_has_worked_is_not_given_up_for_a_configuration(tmp_path: Path) -> None:
    """Its address is in use for a moment, a file of its is away; one that never worked is told wrong."""
    works = "from binlog_merge.heartbeat import HEARTBEAT\nHEARTBEAT.works()\n"
    run = _Run(_times("a", tmp_path / "n", [f"{works}sys.exit(31)", "sys.exit(2)", "sys.exit(2)"]))
    assert run.stopped_when(lambda: run.ups() == 1).supervisor.run() == 0
    assert [n.values["code"] for n in run.notices if n.event == "ended"] == [31, 2, 2]
    run = _Run(_times("a", tmp_path / "m", ["sys.exit(31)", "sys.exit(2)"]))
    assert run.supervisor.run() == 2


def test_a_command_gets_the_files_and_the_environment_that_it_is_to_have(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("first")
    with held.holding():
        held.hold([tmp_path / "settings", tmp_path / "missing"])
        (tmp_path / "settings").write_text("half an ed")
        assert held.read(tmp_path / "settings") == b"first"
        told = f"from binlog_merge.config import held\nprint(held.read({str(tmp_path / 'settings')!r}).decode())\n"
        command = (sys.executable, "-c", f"{told}{WAITS}")
        run = _Run(Component("a", command, held.descriptors(), held.environment()))
        assert run.stopped_when(lambda: run.ups() == 1).supervisor.run() == 0
    assert ("a", "first") in run.lines
    assert held.read(tmp_path / "settings") == b"half an ed"


def _leading(signs: str) -> Component:
    """Return a component that gives signs of who leads, a word each: a number is a pause until so many lines came."""
    program = (
        "import signal, sys, time\nfrom pathlib import Path\nfrom binlog_merge.heartbeat import HEARTBEAT, Role\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nHEARTBEAT.works()\n"
        f"for word in {signs.split()!r}:\n"
        "    if word in '+-*':\n        HEARTBEAT.has_role(Role(word.encode()))\n        print(word, flush=True)\n"
        "    else:\n        time.sleep(float(word))\n"
        "while True:\n    time.sleep(60)"
    )
    return replace(_python("merge", program), says_who_leads=True)


GATED = "from binlog_merge.heartbeat import await_gate\nprint('loaded', flush=True)\nawait_gate()\n" + WAITS


def test_who_waits_for_the_lead_begins_when_this_machine_leads_and_ends_when_it_does_no_longer() -> None:
    """Another is loaded at once, which begins with the next lead; that is no accident."""
    waiting = replace(_python("capture", GATED), waits_for_lead=True)
    run = _Run(_leading("0.5 + 0.5 - 0.5 +"), waiting)
    run.stopped_when(lambda: run.ups() == 2)
    assert run.supervisor.run() == 0
    assert run.events("capture") == ["started", "begins", "sent back", "started", "begins"]
    assert [line for name, line in run.lines if name == "capture"].count("loaded") == 2
    assert all(pid != other for pid, other in zip(run.pids(), run.pids()[1:], strict=False))
    assert run.supervisor.leads() is True


@pytest.mark.parametrize(("then", "leads"), [("+", True), ("-", False)])
def test_who_waits_begins_when_this_machine_is_to_lead_next_and_ends_if_it_does_not(then: str, leads: bool) -> None:
    waiting = replace(_python("capture", GATED), waits_for_lead=True)
    run = _Run(_leading("0.5 * 0.5 " + f"{then} 0.1 " * 300), waiting)  # each line is an occasion to look
    run.stopped_when(
        lambda: run.supervisor.leads() is leads and run.events("capture").count("started") == 2 - leads
        and ("merge", then) in run.lines
    )  # fmt: skip
    assert run.supervisor.run() == 0
    assert run.events("capture") == ["started", "begins", *["sent back", "started"] * (not leads)]
    assert run.supervisor.leads() is leads


@pytest.mark.parametrize("role", [Role.LEADS, Role.PREPARES])
def test_who_works_for_the_lead_ends_if_another_leads_when_the_merge_is_started_again(
    role: Role, tmp_path: Path
) -> None:
    """While the merge was gone its lease was taken: what it says first is that it follows."""
    says = "from binlog_merge.heartbeat import HEARTBEAT, Role\nHEARTBEAT.works()\nHEARTBEAT.has_role(Role.{})\n"
    first = f"{says.format(role.name)}time.sleep(0.5); sys.exit(31)"
    merge = _times("merge", tmp_path / "starts", [first], says.format("FOLLOWS") + WAITS)
    run = _Run(replace(merge, says_who_leads=True), replace(_python("capture", GATED), waits_for_lead=True))
    run.stopped_when(lambda: run.events("capture").count("started") == 2)
    assert run.supervisor.run() == 0
    assert run.events("capture") == ["started", "begins", "sent back", "started"]
    assert run.supervisor.leads() is False


def test_nobody_who_waits_begins_while_this_machine_does_not_lead() -> None:
    waiting = replace(_python("capture", GATED), waits_for_lead=True)
    run = _Run(_leading("- 0.3"), waiting)
    run.stopped_when(lambda: ("capture", "loaded") in run.lines and ("merge", "-") in run.lines)
    assert run.supervisor.run() == 0
    assert run.ups() == 0
    assert run.supervisor.leads() is False
    assert _Run(waiting).supervisor.leads() is None


def test_one_that_is_started_again_while_this_machine_leads_begins_at_once(tmp_path: Path) -> None:
    ends = _times(
        "capture", tmp_path / "counter", ["from binlog_merge.heartbeat import await_gate; await_gate(); sys.exit(25)"]
    )
    run = _Run(_leading("+"), replace(ends, waits_for_lead=True))
    run.stopped_when(lambda: run.ups() == 1)
    assert run.supervisor.run() == 0
    assert run.events("capture")[:3] == ["started", "begins", "ended"]


def test_one_that_does_not_end_when_it_is_sent_back_is_killed() -> None:
    deaf = "from binlog_merge.heartbeat import await_gate\nawait_gate()\n" + DEAF
    run = _Run(_leading("+ 1 -"), replace(_python("capture", deaf), waits_for_lead=True), grace=0.5)
    run.stopped_when(lambda: run.events("capture").count("started") == 2)
    run.supervisor.run()
    assert "sent back" in run.events("capture")
