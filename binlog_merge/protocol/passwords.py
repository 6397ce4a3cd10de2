"""Hashes of passwords in MySQL's forms, and what proves a password against each.

    *E5D0…               mysql_native_password: SHA1(SHA1(password)), 40 hexadecimal digits; needs nothing but a proof
    $A$005$salt digest   caching_sha2_password: SHA256-crypt with 20 bytes of salt and 5000 rounds (005: thousands, in
                         hexadecimal). It needs the password itself once, hidden by TLS or by the server's public key;
                         from then on a proof will do
    0x244124…            the same in hexadecimal, as SHOW CREATE USER prints it with print_identified_with_as_hex

Sources: https://www.akkadia.org/drepper/SHA-crypt.txt; mysql-server `sql/auth/sha2_password.cc`, whose salt is longer.
"""

import hashlib
import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from typing import Final, Self

_SALT_LEN: Final = 20
_DIGEST_LEN: Final = 43
_ROUNDS_PER_UNIT: Final = 1000
_USUAL_UNITS: Final = 5
_LONGEST_PASSWORD: Final = 256
"""Bytes, as MySQL has it: a hash of a longer password would take long."""
_DIGITS: Final = "./" + string.digits + string.ascii_uppercase + string.ascii_lowercase
_NATIVE: Final = re.compile(r"\*([0-9A-Fa-f]{40})")
_CRYPT: Final = re.compile(rb"\$A\$([0-9A-Fa-f]{3})\$(.{20})([./0-9A-Za-z]{43})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Crypt:
    """A hash of caching_sha2_password: salt, thousands of rounds, and the digest in its 43 characters."""

    salt: bytes
    units: int
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> Self:
        """Return the hash of a password with a new salt."""
        salt = "".join(secrets.choice(_DIGITS) for _ in range(_SALT_LEN)).encode()
        return cls(salt, _USUAL_UNITS, sha256_crypt(password.encode(), salt, _USUAL_UNITS * _ROUNDS_PER_UNIT))

    def is_of(self, password: bytes) -> bool:
        """Return whether this is the hash of a password. It takes some hundredths of a second."""
        if len(password) > _LONGEST_PASSWORD:
            return False
        return hmac.compare_digest(sha256_crypt(password, self.salt, self.units * _ROUNDS_PER_UNIT), self.digest)

    def text(self) -> str:
        """Return the hash as MySQL keeps it, if the salt has no other than printable characters."""
        return f"$A${self.units:03X}${self.salt.decode('latin-1')}{self.digest.decode()}"


@dataclass(frozen=True, slots=True)
class Secret:
    """What is known of a password: SHA1(SHA1(it)), SHA256(SHA256(it)), its crypt; each may be missing."""

    native: bytes | None = field(default=None, repr=False)
    sha2: bytes | None = field(default=None, repr=False)
    crypt: Crypt | None = None

    @classmethod
    def of(cls, password: str) -> Self:
        """Return what is known of a password that is known."""
        secret = password.encode()
        return cls(_twice("sha1", secret), _twice("sha256", secret))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a hash in one of MySQL's forms. Raises ValueError."""
        if match := _NATIVE.fullmatch(text):
            return cls(native=bytes.fromhex(match[1]))
        raw = text.encode("utf-8", "surrogateescape")
        if text[:2].lower() == "0x":
            raw = bytes.fromhex(text[2:])
        if (crypt := _CRYPT.fullmatch(raw)) and int(crypt[1], 16):
            return cls(crypt=Crypt(crypt[2], int(crypt[1], 16), crypt[3]))
        raise ValueError(
            "is no hash in a form of MySQL: $A$005$…, the same as 0x24412430…, or * and 40 hexadecimal digits"
        )

    @classmethod
    def of_nobody(cls, like: "Secret") -> Self:
        """Return a secret that nothing proves, and that is asked for as `like` is."""
        crypt = Crypt(secrets.token_bytes(_SALT_LEN), _USUAL_UNITS, bytes(_DIGEST_LEN)) if like.crypt else None
        native, sha2 = (
            None if known is None else secrets.token_bytes(len(known)) for known in (like.native, like.sha2)
        )
        return cls(native, sha2, crypt)


def double_sha256(password: bytes) -> bytes:
    """Return what proves later passwords, once one was given: SHA256(SHA256(password))."""
    return _twice("sha256", password)


def proves_native(twice: bytes, nonce: bytes, proof: bytes) -> bool:
    """Return whether a proof of mysql_native_password is right: XOR of SHA1(password) and SHA1(nonce, twice)."""
    if len(proof) != len(twice):
        return False
    once = _xor(proof, hashlib.sha1(nonce + twice).digest())
    return hmac.compare_digest(hashlib.sha1(once).digest(), twice)


def proves_sha2(twice: bytes, nonce: bytes, proof: bytes) -> bool:
    """Return whether a proof of caching_sha2_password is right: XOR of SHA256(password) and SHA256(twice, nonce)."""
    if len(proof) != len(twice):
        return False
    once = _xor(proof, hashlib.sha256(twice + nonce).digest())
    return hmac.compare_digest(hashlib.sha256(once).digest(), twice)


def native_text(password: str) -> str:
    """Return the hash of mysql_native_password as MySQL keeps it."""
    return "*" + _twice("sha1", password.encode()).hex().upper()


def sha256_crypt(password: bytes, salt: bytes, rounds: int) -> bytes:
    """Return the digest of SHA256-crypt in its 43 characters. The salt may have any length."""
    other = hashlib.sha256(password + salt + password).digest()
    begin = password + salt + _filled(other, len(password))
    bits = len(password)
    while bits:
        begin += other if bits & 1 else password
        bits >>= 1
    digest = hashlib.sha256(begin).digest()
    p = _filled(hashlib.sha256(password * len(password)).digest(), len(password))
    s = _filled(hashlib.sha256(salt * (16 + digest[0])).digest(), len(salt))
    for i in range(rounds):
        text = p if i & 1 else digest
        if i % 3:
            text += s
        if i % 7:
            text += p
        digest = hashlib.sha256(text + (digest if i & 1 else p)).digest()
    return _encoded(digest)


def _encoded(digest: bytes) -> bytes:
    """Return the digest in crypt's digits: three bytes become four of them, the last two bytes three."""
    triples = [(digest[a] << 16 | digest[b] << 8 | digest[c], 4) for a, b, c in map(_places, range(10))]
    triples.append((digest[31] << 8 | digest[30], 3))
    return "".join(_DIGITS[value >> 6 * i & 63] for value, count in triples for i in range(count)).encode()


def _places(i: int) -> tuple[int, int, int]:
    """Return which bytes the i-th triple has: 0, 10 and 20, each i further on, turned to the left 2 i times."""
    places = (i, 10 + i, 20 + i)
    a, b, c = (*places[2 * i % 3 :], *places[: 2 * i % 3])
    return a, b, c


def _filled(digest: bytes, length: int) -> bytes:
    return (digest * (length // len(digest) + 1))[:length]


def _twice(name: str, secret: bytes) -> bytes:
    return hashlib.new(name, hashlib.new(name, secret).digest()).digest()


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
