"""The version of a MySQL server as a number."""


def version_number(version: str) -> int:
    """Return 90704 for "9.7.4-log" (MySQL `get_server_version`)."""
    numbers = [0, 0, 0]
    for i, part in enumerate(version.split(".")[:3]):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers[i] = int(digits) if digits else 0
    return numbers[0] * 10000 + numbers[1] * 100 + numbers[2]
