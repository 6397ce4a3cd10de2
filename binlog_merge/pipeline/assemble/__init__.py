"""Assemble: joins what crosses the edges of pieces: open branches, the greatest TSO so far, GTIDs.

Gives transactions without a commit TSO their order key, and each node its watermark.
"""
