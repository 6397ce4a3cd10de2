"""The dialect of a stream for MariaDB 10.10 and later: what of MySQL's binlog its replicas do not take is rewritten.

    collations             in query events, in table maps and in DDL: MariaDB's nearest (`collations`)
    JSON, VECTOR           columns become LONGTEXT and LONGBLOB in table maps; documents become text (`rows`)
    partial JSON updates   become updates with whole documents
    DDL                    clauses that MariaDB has otherwise, or not at all (`ddl`)

Everything else passes as it is. GTIDs stay MySQL's, which MariaDB ignores: its replicas follow by file and position.
"""
