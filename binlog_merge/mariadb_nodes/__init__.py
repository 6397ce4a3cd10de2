"""Binlogs of MariaDB as MySQL would have written them: what MariaDB has otherwise is rewritten, event by event.

    GTID 7-101-42, no BEGIN            GTID uuid:42, BEGIN; the UUID is made of the server id and the domain
    ANNOTATE_ROWS                      ROWS_QUERY
    compressed events and columns      as if they were not compressed
    rows V1                            rows V2
    XA: GTID with an xid … XA END      XA START … XA END
    DDL                                the user's text, with what MySQL writes otherwise changed by offset (`ddl`)
    GTID_LIST                          PREVIOUS_GTIDS

The translation of a file is a function of its bytes: wherever it is made, the same bytes stand at the same position.
"""
