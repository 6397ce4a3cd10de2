"""Undoes changes of a merged log: inverse rows in reverse order, as SQL or as a binlog, for whoever applies them."""
