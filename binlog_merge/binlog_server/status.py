"""SHOW STATUS: the names of MySQL 9.7, with what is known of this server; a counter that nobody keeps here is 0."""

from collections.abc import Iterator, Mapping

from binlog_merge.binlog_server.recorded import known_status

Counts = Mapping[str, int | str]


def shown_status(everywhere: bool, known: Counts) -> Iterator[tuple[str, str]]:
    """Yield names and values of SHOW STATUS, or of SHOW GLOBAL STATUS; `known` are those of this server and session."""
    for name, (of_server, value) in known_status().items():
        if of_server or not everywhere:
            yield name, str(known.get(name, value))
