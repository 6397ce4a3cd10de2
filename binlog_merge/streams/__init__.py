"""Streams: logs derived from a merged log for readers that want another one, each held in a folder beside it.

    merged/binlog.000007 ──transactions──▶ chosen ──▶ dialect ──▶ merged/.streams/NAME/binlog.000007

A stream's file is a pure function of the log's file of the same name, of the stream's definition and of the number of
transactions before it. So a stream is served by the code that serves the log.
"""
