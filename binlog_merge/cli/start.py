"""The command's beginning: Ctrl-C and SIGTERM are heeded before anything big is imported."""

from typing import NoReturn

from binlog_merge.cli.signals import heed_signals


def main() -> NoReturn:
    """Run the command line and exit with a code from EXIT_CODES."""
    heed_signals()
    from binlog_merge.cli.main import main as command

    command()
