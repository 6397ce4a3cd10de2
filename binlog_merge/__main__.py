"""`python -m binlog_merge`: the command `binlog-merge`, of this Python whatever the PATH says."""

from binlog_merge.cli.start import main

if __name__ == "__main__":
    main()
