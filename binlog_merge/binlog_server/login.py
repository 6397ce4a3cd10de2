"""The connection phase of a session: who the client is, and whether it has the password. It has no socket.

    response ─▶ (auth switch ─▶ proof) ─▶ proved
                                      └─▶ password needed ─▶ (key asked for, key sent) ─▶ password ─▶ proved

The password itself is needed where only a hash of caching_sha2_password is known, and nobody has given it since the
server began: over TLS it comes as it is, without TLS hidden by the server's public key.
"""

import socket
import ssl
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.accounts import Account, Accounts
from binlog_merge.binlog_server.settings import Limits
from binlog_merge.errors import ConfigError, IoError
from binlog_merge.protocol.handshake import (
    CACHING_SHA2,
    FAST_AUTH_SUCCESS,
    NATIVE,
    AuthSwitch,
    HandshakeResponse,
    SslRequest,
)
from binlog_merge.protocol.packets import Capability, Err, ErrorCode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


_VALID: Final = timedelta(days=3650)
_KEY_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of TLS, in PEM. `ca` vouches for clients, which must then show a certificate."""

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the server's context. Raises ConfigError and IoError."""
    if files.cert is None and files.key is not None:
        raise ConfigError("--tls-key goes with --tls-cert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if files.cert is None:
        _load_own(context)
    else:
        try:
            context.load_cert_chain(files.cert, files.key)
        except (OSError, ValueError) as error:
            raise IoError(
                f"cannot be used as certificate and key: {error}",
                file=str(files.cert),
                remedy="give both in PEM, the key without a passphrase",
            ) from None
    if files.ca is not None:
        try:
            context.load_verify_locations(files.ca)
        except (OSError, ValueError) as error:
            raise IoError(
                f"cannot be used as a CA of clients: {error}", file=str(files.ca), remedy="give its certificate in PEM"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load_own(context: ssl.SSLContext) -> None:
    """Make a certificate that vouches for itself, for as long as the process lives."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"binlog-merge {socket.gethostname()}"[:64])])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + _VALID)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    # The context takes files alone; only this user can read them, and they are gone at once.
    with tempfile.NamedTemporaryFile(prefix="binlog-merge-") as file:
        file.write(pem + key.private_bytes(encoding, form, serialization.NoEncryption()))
        file.flush()
        context.load_cert_chain(file.name)


class PasswordKey:
    """The key with which clients without TLS hide a password; made when the first asks for it. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: RSAPrivateKey | None = None

    def public(self) -> bytes:
        """Return the public key in PEM."""
        from cryptography.hazmat.primitives import serialization

        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key().public_key().public_bytes(serialization.Encoding.PEM, form)

    def opened(self, hidden: bytes) -> bytes | None:
        """Return what a client has hidden, None if this is not made with the key."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
        try:
            return self._key().decrypt(hidden, oaep)
        except ValueError:
            return None

    def _key(self) -> "RSAPrivateKey":
        from cryptography.hazmat.primitives.asymmetric import rsa

        with self._lock:
            if self._made is None:
                self._made = rsa.generate_private_key(65537, _KEY_BITS)
            return self._made


_PASSWORD_NEEDED: Final = b"\x01\x04"
_KEY_ASKED_FOR: Final = b"\x02"
_KNOWN: Final = (CACHING_SHA2, NATIVE)
_LONGEST_NAME: Final = 80
INSECURE: Final = (
    "Connections using insecure transport are prohibited: this binlog-merge serve was started with --tls-required"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """The state that all logins of a server share. `inside` returns how many clients are logged in."""

    accounts: Accounts
    key: PasswordKey
    limits: Limits
    inside: Callable[[], int]
    tls_required: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What to send. `proved`: the client may go on, with an OK behind this; `denied`: why it is to be disconnected, for
    the operator, else empty.
    """

    payloads: Sequence[bytes] = ()
    proved: bool = False
    denied: str = ""


class _Phase(Enum):
    RESPONSE = auto()
    PROOF = auto()
    PASSWORD = auto()


class Login:
    """A client's login from an address. `encrypted` is to be set when TLS has begun, `asked` the request for it."""

    def __init__(self, gate: Gate, nonce: bytes, address: str) -> None:
        self.encrypted = False
        self.tls_request: SslRequest | None = None
        self.response: HandshakeResponse | None = None
        self._gate = gate
        self._nonce = nonce
        self._address = address
        self._phase = _Phase.RESPONSE
        self._plugin = CACHING_SHA2
        self._account = Account("")

    def greeted(self) -> str:
        """Return the plugin that is named to a client before it has said who it is."""
        return self._gate.accounts.greeted()

    def receive(self, payload: bytes) -> Answered:
        """Return the answer to a packet. Raises BinlogFormatError for a response that cannot be read."""
        return self._admitted(self._next(payload))

    def change(self, body: bytes, nonce: bytes) -> Answered:
        """Begin anew with the body of COM_CHANGE_USER: all but clients that know no plugins prove `nonce` then."""
        assert self.response is not None
        response = HandshakeResponse.parse_change(body, self.response)
        if Capability.CLIENT_PLUGIN_AUTH not in response.capabilities:
            return self._admitted(self._responded(response))
        self.response, self._nonce = response, nonce
        self._account = self._gate.accounts.find(response.user, self._address)
        return self._switched(self._plugin_for(response))

    def _admitted(self, answered: Answered) -> Answered:
        if answered.proved and self._gate.inside() >= self._gate.limits.connections:
            return Answered(
                [Err.of(ErrorCode.ER_CON_COUNT_ERROR, "Too many connections").pack()],
                denied=f"{self._gate.limits.connections} clients are logged in (--max-connections)",
            )
        return answered

    def _next(self, payload: bytes) -> Answered:
        match self._phase:
            case _Phase.RESPONSE:
                return self._responded(HandshakeResponse.parse(payload, self.tls_request))
            case _Phase.PROOF:
                return self._proof(payload)
            case _Phase.PASSWORD:
                return self._password(payload)

    def _responded(self, response: HandshakeResponse) -> Answered:
        self.response = response
        if self._gate.tls_required and not self.encrypted:
            return Answered([Err.of(ErrorCode.ER_SECURE_TRANSPORT_REQUIRED, INSECURE).pack()], denied="it has no TLS")
        self._account = account = self._gate.accounts.find(response.user, self._address)
        self._plugin = self._plugin_for(response)
        # A client whose default plugin is not that of the greeting names its own, and waits for an auth switch, also
        # without a password; so does one that names none, whose proof may be of any plugin.
        named = response.plugin.lower()
        other = Capability.CLIENT_PLUGIN_AUTH in response.capabilities and named != CACHING_SHA2
        if named != self._plugin or (not response.proof and (account.secrets or other)):
            return self._switched(self._plugin)
        return self._proof(response.proof)

    def _plugin_for(self, response: HandshakeResponse) -> str:
        """Return the plugin by which a client is to prove itself: its own, if there is a hash for that."""
        named = response.plugin.lower()
        plugin = named if named in _KNOWN else CACHING_SHA2
        if not response.proof and is_mariadb(response):
            plugin = NATIVE  # libmariadb has caching_sha2_password only if a plugin is installed
        plugins = self._account.plugins
        return plugin if plugin in plugins else plugins[0]

    def _switched(self, plugin: str) -> Answered:
        self._plugin, self._phase = plugin, _Phase.PROOF
        return Answered([AuthSwitch(plugin, self._nonce).pack()])

    def _proof(self, proof: bytes) -> Answered:
        account = self._account
        if account.proved(self._plugin, self._nonce, proof):
            return Answered(
                [FAST_AUTH_SUCCESS] if self._plugin == CACHING_SHA2 and account.secrets else [], proved=True
            )
        by_password = self._plugin == CACHING_SHA2 and any(one.crypt for one in account.secrets)
        if by_password and proof not in (b"", b"\0"):
            self._phase = _Phase.PASSWORD
            return Answered([_PASSWORD_NEEDED])
        return self._denied(proof not in (b"", b"\0"))

    def _password(self, payload: bytes) -> Answered:
        if not self.encrypted and payload == _KEY_ASKED_FOR:
            return Answered([b"\x01" + self._gate.key.public()])
        password = self._shown(payload)
        if password is not None and self._gate.accounts.given(self._account, password):
            return Answered(proved=True)
        return self._denied(True)

    def _shown(self, payload: bytes) -> bytes | None:
        """Return the password in a payload, None if it is not one."""
        data: bytes | None = payload
        if not self.encrypted:
            opened = self._gate.key.opened(payload)
            data = (
                None if opened is None else bytes(c ^ self._nonce[i % len(self._nonce)] for i, c in enumerate(opened))
            )
        return None if data is None or not data.endswith(b"\0") else data[:-1]

    def _denied(self, with_password: bool) -> Answered:
        user = "" if self.response is None else self.response.user
        return Answered(
            [
                Err.of(
                    ErrorCode.ER_ACCESS_DENIED_ERROR,
                    f"Access denied for user '{user[:_LONGEST_NAME]}'@'{self._address}' "
                    f"(using password: {'YES' if with_password else 'NO'})",
                ).pack()
            ],
            denied="no such user from there, or " + ("another password" if with_password else "a password is missing"),
        )


def is_mariadb(response: HandshakeResponse) -> bool:
    """Return whether a client uses MariaDB's library."""
    return response.attributes.get("_client_name") == "libmariadb"
