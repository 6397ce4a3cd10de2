"""`binlog-merge password`: the hash of a password, for a file of users of `serve`."""

import getpass
import sys
from pathlib import Path
from typing import Annotated

from binlog_merge.cli.options import Output, local_path, option
from binlog_merge.cli.output import OutputFormat, print_document
from binlog_merge.cli.replay_options import password_of
from binlog_merge.errors import ConfigError

HELP = """Print the hash of a password, for a file of users (`serve --users`).

The password is read from --password-file, else from the terminal, where it is asked for twice, else from the first line
of standard input.

\b
  binlog-merge password                        $A$005$…, a hash of caching_sha2_password, as MySQL keeps it
  binlog-merge password --native < rep.pw      *…, for clients that know mysql_native_password alone, as MariaDB's

The hashes of a MySQL server will do as well: SELECT CONCAT('0x', HEX(authentication_string)) FROM mysql.user."""


def password(
    password_file: Annotated[Path | None, option("--password-file", "Holds the password.", "PATH", local_path)] = None,
    native: Annotated[
        bool, option("--native", "The hash of mysql_native_password, which has no salt: easier to break.")
    ] = False,
    output: Output = OutputFormat.text,
) -> None:
    """Print the hash of a password, for a file of users."""
    from binlog_merge.protocol.passwords import Crypt, native_text

    given = _given() if password_file is None else password_of(password_file)
    if not given:
        where = "the first line of standard input" if password_file is None else "the file"
        raise ConfigError(
            "the password is empty",
            file=None if password_file is None else str(password_file),
            remedy=f"write it into {where}, or type it where there is a terminal",
        )
    text = native_text(given) if native else Crypt.of(given).text()
    if output is OutputFormat.text:
        print(text)
        return
    print_document({"plugin": "mysql_native_password" if native else "caching_sha2_password", "hash": text}, output)


def _given() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("password: ")
    if getpass.getpass("again: ") != first:
        raise ConfigError("the two passwords differ", remedy="run it again, and type the same twice")
    return first
