"""Binlogs over the wire: a merged one handed out as a server would, the nodes' own ones fetched from theirs."""
