"""TLS of the server: contexts, a certificate of its own, and the key that hides a password where there is no TLS.

`cryptography` is loaded when it is needed.
"""

import socket
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from binlog_merge.errors import ConfigError, IoError

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
