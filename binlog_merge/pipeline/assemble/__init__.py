"""Assemble: joins what crosses the boundaries of pieces: open branches, the greatest TSO so far, GTIDs.

Gives each transaction without a commit TSO its order key, and each node its watermark.
"""
