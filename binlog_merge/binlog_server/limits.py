"""What clients may take of a server, so that none of them, and no flood of them, is felt by the others."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server and of each of its sessions.

    `connections` are logged in, `logins` are not yet: of those the oldest has to leave when one more comes. `statement`
    is in bytes: enough for GTID sets of thousands of intervals, and taken apart in some hundredths of a second.
    `variables` are the characters of all that a session has SET. `gtids` is in bytes of a request for a dump by GTIDs:
    some 65,000 intervals or 26,000 UUIDs, where the sets of replicas have hundreds.
    """

    connections: int = 200
    logins: int = 100
    statement: int = 1 << 18
    variables: int = 1 << 19
    gtids: int = 1 << 20
