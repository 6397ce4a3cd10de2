"""Back through a log: changes undone, as SQL or as a binlog, and tables as they were at a moment."""
