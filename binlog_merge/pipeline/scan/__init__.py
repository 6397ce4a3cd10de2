"""Scan: reads the nodes' files in pieces, checks them, joins XA branches with their commits, writes index blocks."""
