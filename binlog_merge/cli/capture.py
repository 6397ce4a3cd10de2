"""`binlog-merge capture`: the nodes' binlog files, fetched from their servers."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, say, start_log
from binlog_merge.cli.options import MERGED_ENV, Output, SslCa, local_path, option, output_place
from binlog_merge.cli.output import OutputFormat, counted, document_of, print_document, print_json, printable
from binlog_merge.errors import ConfigError, OutputBusy
from binlog_merge.heartbeat import await_gate
from binlog_merge.redaction import Routine

if TYPE_CHECKING:
    from binlog_merge.node_capture.nodes import CaptureResult

HELP = """Fetch the nodes' binlogs from their servers, byte for byte, under the names that they have there.

Each node with a `server: mysql://user@host:port` in the configuration gets a directory of its own, and a node without
`files` is merged from there. Run it again, or leave it running with --stop-never: it goes on after the last whole
event, killed anywhere or not. Checksums and positions are verified as events come; a server that is not the one from
which the files are, or that lacks what comes next, is refused. Merge at any time.

\b
  GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capture@'%';      on each node
  binlog-merge capture --config cluster.yaml --password-file pw           to the end of what the servers have
  binlog-merge capture --config cluster.yaml --password-file pw --stop-never
  binlog-merge merge --config cluster.yaml --merged merged/

Where the nodes' clocks give the order (gtid-time), it also notes how far the servers' clocks are, so that a node with
nothing to write holds no merge back; `capture: {clock: off}` if sessions set original_commit_timestamp. Where a global
clock does, `heartbeat:` of the configuration says what to run on each node now and then, with --stop-never.

A host that has nothing begins where the merged log goes on that --merged names, or output.dir of the configuration: of
each node's log it fetches what the next merge needs, not all from the server's first file on. A file that begins in
the middle keeps its offsets, and what is left out of it is refused to whoever reads it. --whole fetches everything.

A node may fail over: with `server: [mysql://a, mysql://b]` another of its servers takes over when the one that is
captured cannot be reached for `capture: {lost-after: 10s}` or has become read-only, and the other may be written to and
has executed all that was captured (gtid_mode=ON). By hand, with one `server` or several: `--switch dn-1=mysql://b`; a
capture that is running, under `run` too, is asked to do it, and goes on. The new server's files go into a folder of
their own, and a merge reads all of them as one log, each transaction once. One that lacks something captured is
refused, with the GTIDs.

A node may be a MariaDB: its files are kept as they are in a hidden folder, and translated as `from-mariadb` does.

A lost connection is retried. A node that fails for good is reported at once; the others go on, and in the
end its error is the exit code. Ctrl-C (exit code 130) and SIGTERM (143) end the capture after a whole event."""


def capture(
    config: Annotated[
        Path,
        option("--config -c", "The cluster: its nodes and their servers.", "CLUSTER.YAML", local_path),
    ],
    node: Annotated[list[str] | None, option("--node", "Only this node; may be given again.", "SOURCE_ID")] = None,
    out: Annotated[
        Path | None,
        option("--out", "Where to; default: capture.dir of the configuration.", "DIR", local_path),
    ] = None,
    stop_never: Annotated[bool, option("--stop-never", "Go on as the servers write.")] = False,
    until_now: Annotated[
        bool, option("--until-now", "Stop where the servers are when it begins; the default.")
    ] = False,
    start_file: Annotated[
        list[str] | None,
        option(
            "--start-file",
            "Where a node without captured files begins; default: where the merged log goes on, else the first file.",
            "[SOURCE_ID=]FILE",
        ),
    ] = None,
    merged: Annotated[
        str | None,
        option(
            "--merged",
            "The merged log, a folder or a URI, by which a new host knows where to begin; default: output.dir.",
            "DIR",
            output_place,
            envvar=MERGED_ENV,
        ),
    ] = None,
    whole: Annotated[
        bool, option("--whole", "Begin at each server's first file, whatever the merged log needs.")
    ] = False,
    switch: Annotated[
        list[str] | None,
        option(
            "--switch",
            "Let another server take over: from now on the node's log is its. For each node once. "
            "Asked of the capture that is running, if one is; it has --retry-seconds to answer.",
            "SOURCE_ID=mysql://USER@HOST",
        ),
    ] = None,
    password_file: Annotated[
        Path | None,
        option("--password-file", "Holds the servers' password; else the URL's, or MYSQL_PWD.", "PATH", local_path),
    ] = None,
    ssl_ca: SslCa = None,
    retry_seconds: Annotated[
        float, option("--retry-seconds", "How long to try again when a server cannot be reached.", min=0)
    ] = 60.0,
    together: Annotated[
        bool, option("--together", "When a node's capture fails, end the others' too, and the command.")
    ] = False,
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Fetch the nodes' binlogs from their servers."""
    start_log(log_level, log_format)
    from binlog_merge.cli.replay_options import password_of
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.mariadb_nodes.folder import translating
    from binlog_merge.node_capture.node import CaptureOptions
    from binlog_merge.node_capture.nodes import capture as run
    from binlog_merge.node_capture.switch_request import ask
    from snapshot_store.server import ServerAddress

    if stop_never and until_now:
        raise ConfigError("--stop-never and --until-now contradict each other", remedy="give one of them")
    cluster = MergeConfig.load(config)
    directory = Path(cluster.capture.dir) if out is None else out
    # Into another directory than the merge's one wants the whole log, unless one says otherwise here.
    named = merged if out is None or merged != os.environ.get(MERGED_ENV) else None
    place = None if whole else named or (cluster.output.dir if out is None else None)
    lost_after = cluster.capture.lost_after / 1e6
    options = CaptureOptions(stop_never, retry_seconds, None if ssl_ca is None else str(ssl_ca), together, lost_after)
    starts = {name: file for name, _, file in (text.rpartition("=") for text in start_file or ())}
    switches = _switches(switch or ())
    password = None if password_file is None else password_of(password_file)
    await_gate()
    try:
        result = run(
            cluster,
            directory,
            options,
            node or (),
            password,
            starts,
            _report,
            switch=switches,
            merged=place,
            translating=translating,
        )
    except OutputBusy:
        if not switches or stop_never:
            raise
        _print_switched(ask({name: directory / name for name in switches}, switches, retry_seconds), output)
        for name in switches:
            if ServerAddress.parse(switches[name]) not in map(ServerAddress.parse, cluster.node(name).servers):
                _report(
                    name, f"write {ServerAddress.parse(switches[name])} into its `server` before capture starts again"
                )
        return
    except BaseException as error:  # Ctrl-C and SIGTERM, too
        captured = getattr(error, "result", None)
        if captured is not None and output is OutputFormat.text:
            _print(captured, directory, output)
        raise
    _print(result, directory, output)


def _switches(given: Sequence[str]) -> dict[str, str]:
    """Return the URLs of servers that are to take over, by node."""
    from snapshot_store.server import ServerAddress

    switches: dict[str, str] = {}
    for text in given:
        node, equals, url = text.partition("=")
        try:
            ServerAddress.parse(url)
        except ValueError as error:
            raise ConfigError(f"--switch {node}: {error}") from None
        if not equals or not node or node in switches:
            raise ConfigError(
                "--switch names a node and the server that takes over", remedy="write --switch dn-1=mysql://user@host"
            )
        switches[node] = url
    return switches


def _report(node: str, text: str) -> None:
    say(f"{node}: {text}", text, logging.INFO if isinstance(text, Routine) else logging.WARNING, node=node)


def _print(result: "CaptureResult", directory: Path, output: OutputFormat) -> None:
    if output is not OutputFormat.text:
        print_json({"captured": str(directory), **document_of(result=result)})
        return
    nodes = result.to_dict()["nodes"]
    width = max(map(len, nodes))
    lines = [
        f"{_done(nodes)} captured into {directory}",
        *(f"  {name:<{width}}  {_line(nodes[name])}" for name in nodes),
    ]
    print("\n".join(printable(line) for line in lines), flush=True)


def _print_switched(answers: Mapping[str, Mapping[str, Any]], output: OutputFormat) -> None:
    if output is not OutputFormat.text:
        print_document({"switched": {node: dict(values) for node, values in answers.items()}}, output)
        return
    for node, values in answers.items():
        where = f"into {values['folder']}" if values["folder"] else "as before"
        print(printable(f"{node}: {values['server']} ({values['server_uuid']}) has the node now, captured {where}"))


def _done(nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how many nodes were captured, as far as that was asked; not those that failed, which were told."""
    well, noun = sum(not node["error"] for node in nodes.values()), "node" if len(nodes) == 1 else "nodes"
    return f"{well} {noun}" if well == len(nodes) else f"{well} of {len(nodes)} {noun}"


def _line(node: Mapping[str, Any]) -> str:
    up_to = "nothing yet" if node["file"] is None else f"up to {node['file']}:{node['position']}"
    files = node["new_files"]
    contents = f"{node['new_bytes']:,} bytes, {counted(node['new_events'], 'event')}"
    new = f"{contents}, {counted(files, 'file')} {'is' if files == 1 else 'are'} new"
    error = f"; stopped: {node['error']['code']}" if node["error"] else ""
    return f"{up_to}; {new}{error}"
