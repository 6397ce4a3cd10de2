"""Who may log in: the one user of the command line, or the users of a file, which is read again when it has changed.

users:
  - name: rep
    password: $A$005$…            a hash, or a list of them, any of which will do: `binlog-merge password` makes them
    hosts: [10.0.0.%, 127.0.0.1]  from where: patterns, networks (10.0.0.0/24), localhost; everywhere if left out
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from binlog_merge.config.yaml import explain, load_yaml
from binlog_merge.errors import ConfigError
from binlog_merge.protocol.handshake import CACHING_SHA2, NATIVE
from binlog_merge.protocol.passwords import Secret, double_sha256, proves_native, proves_sha2

EVERYWHERE: Final = ("%",)
_PATTERN: Final = re.compile(r"[0-9A-Fa-f.:%_]+")
_NO_PASSWORD: Final = (b"", b"\0")


@dataclass(frozen=True, slots=True)
class Account:
    """A user, from where it may come, and its secrets: any of them will do, and without one there is no password."""

    user: str
    secrets: tuple[Secret, ...] = ()
    hosts: tuple[str, ...] = EVERYWHERE

    @property
    def plugins(self) -> tuple[str, ...]:
        """Return the plugins by which the account can be proved, the best one first."""
        sha2 = not self.secrets or any(one.sha2 or one.crypt for one in self.secrets)
        native = not self.secrets or any(one.native for one in self.secrets)
        return (CACHING_SHA2,) * sha2 + (NATIVE,) * native

    def proved(self, plugin: str, nonce: bytes, proof: bytes) -> bool:
        """Return whether a proof is right."""
        if not self.secrets:
            return proof in _NO_PASSWORD
        if plugin == NATIVE:
            return any(one.native is not None and proves_native(one.native, nonce, proof) for one in self.secrets)
        return any(one.sha2 is not None and proves_sha2(one.sha2, nonce, proof) for one in self.secrets)

    def admits(self, address: str) -> bool:
        """Return whether the user may come from an address."""
        return any(_covers(host, address) for host in self.hosts)


class Accounts:
    """All accounts, for any thread. `report` gets a line if a changed file is wrong: what it said before then holds.

    Raises ConfigError for a file that is wrong at the beginning.
    """

    def __init__(self, given: Sequence[Account], file: Path | None, report: Callable[[str], None]) -> None:
        self._file = file
        self._report = report
        self._lock = Lock()
        self._proven: dict[Secret, bytes] = {}
        self._accounts: Sequence[Account] = given
        self._stamp = self._stamp_now()
        if file is not None:
            self._accounts = accounts_in(file)

    def find(self, user: str, address: str) -> Account:
        """Return a user's account as seen from an address; one that nobody can prove if there is none.

        Of several accounts of a name, the first that admits the address counts.
        """
        self._refresh()
        accounts = self._accounts
        for account in accounts:
            if account.user == user and account.admits(address):
                return self._with_proven(account)
        like = next((secret for account in accounts for secret in account.secrets), Secret.of(""))
        return Account(user, (Secret.of_nobody(like),))

    def greeted(self) -> str:
        """Return the plugin to greet clients with: mysql_native_password where no account has another.

        Some clients know no other and give up when they are greeted with one, before they could be asked to switch.
        """
        self._refresh()
        return NATIVE if all(account.plugins == (NATIVE,) for account in self._accounts) else CACHING_SHA2

    def given(self, account: Account, password: bytes) -> bool:
        """Return whether a password is that of an account; from then on, a proof of it is enough."""
        for secret in account.secrets:
            if secret.crypt is not None and secret.crypt.is_of(password):
                with self._lock:
                    self._proven[replace(secret, sha2=None)] = double_sha256(password)
                return True
        return False

    def _with_proven(self, account: Account) -> Account:
        known = [replace(one, sha2=self._proven.get(one, one.sha2)) for one in account.secrets]
        return replace(account, secrets=tuple(known))

    def _refresh(self) -> None:
        """Read the file again if it has changed."""
        if self._file is None:
            return
        with self._lock:
            stamp = self._stamp_now()
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._accounts, self._proven = accounts_in(self._file), {}
            except ConfigError as error:
                self._report(f"{error.file}: {error.message}; the users are those from before")

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            found = None if self._file is None else self._file.stat()
        except OSError:
            found = None
        return (0, 0, 0) if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


_STRICT: Final = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"))


class _User(BaseModel):
    model_config = _STRICT
    name: Annotated[str, Field(min_length=1, max_length=32)]
    password: Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
    hosts: Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)] = list(EVERYWHERE)

    @field_validator("password")
    @classmethod
    def _check_password(cls, hashes: list[str]) -> list[str]:
        for text in hashes:
            try:
                Secret.parse(text)
            except ValueError as error:
                raise ValueError(f"{error}; `binlog-merge password` makes one") from None
        return hashes

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            _check_host(host)
        return hosts

    def account(self) -> Account:
        return Account(self.name, tuple(map(Secret.parse, self.password)), tuple(self.hosts))


class _Users(BaseModel):
    model_config = _STRICT
    users: Annotated[list[_User], Field(min_length=1)]

    @field_validator("users")
    @classmethod
    def _check_apart(cls, users: list[_User]) -> list[_User]:
        seen: set[tuple[str, str]] = set()
        for user in users:
            for host in dict.fromkeys(user.hosts):
                if (user.name, host) in seen:
                    raise ValueError(
                        f"{user.name!r} from {'everywhere' if host == '%' else host} is there twice, and the first "
                        "would count: write one, with a list of hashes"
                    )
                seen.add((user.name, host))
        return users


def accounts_in(file: Path) -> tuple[Account, ...]:
    """Read a file of users. Raises ConfigError with file and line."""
    document = load_yaml(file, "file of users")
    try:
        users = _Users.model_validate(document.values)
    except ValidationError as error:
        raise explain(_Users, error, document, str(file)) from None
    return tuple(user.account() for user in users.users)


def _check_host(host: str) -> None:
    if host == "localhost" or _PATTERN.fullmatch(host):
        return
    try:
        ipaddress.ip_network(host, strict=False)
    except ValueError:
        raise ValueError(
            f"{host!r} is no host: give an address, a pattern (10.0.0.%), a network (10.0.0.0/24) or localhost; names "
            "are not looked up"
        ) from None


def _covers(host: str, address: str) -> bool:
    """Return whether a host of an account covers an address; IPv4 is the same where a socket of IPv6 shows it."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return host == "%"
    mapped = getattr(known, "ipv4_mapped", None)
    known = known if mapped is None else mapped
    if host == "localhost":
        return known.is_loopback
    if "/" in host:
        return known in ipaddress.ip_network(host, strict=False)
    pattern = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in host.lower())
    return re.fullmatch(pattern, str(known)) is not None
