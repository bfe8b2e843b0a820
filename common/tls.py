"""TLS of outgoing connections: settings, contexts that read renewed certificates, and failures in words."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import SecretStr, field_validator
from pydantic_core import PydanticCustomError
from typing_extensions import override

from common.setting_types import File, Group
from common.telemetry import get_logger

_log = get_logger(__name__)

EXPIRED: Final = 10
NOT_YET_VALID: Final = 9
WRONG_NAME: Final = frozenset({62, 64})
"""Results of OpenSSL's verification of a certificate: its own numbers, X509_V_ERR_…"""

NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
"""What OpenSSL says of an answer that is not TLS."""


class TlsSettings(Group):
    """Certificates of connections to one system."""

    ca_file: File = None
    """File with the certificates of the authorities that the server's certificate is checked with, in PEM; empty: those
    of the machine."""
    ca: str = ""
    """The same certificates as text, in place of the file."""
    certificate_file: File = None
    """File with the certificate of Clearspan and its chain, in PEM, if the server asks for one."""
    key_file: File = None
    """File with the key of that certificate, in PEM; empty: it is in the file of the certificate."""
    key_password: SecretStr = SecretStr("")
    """Password of that key; empty: it is not encrypted."""
    check_hostname: Literal["on", "off"] = "on"
    """off: accept a certificate of another name, signed by the same authorities."""

    @field_validator("ca")
    @classmethod
    def _is_certificates(cls, text: str) -> str:
        if text:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
            except (ssl.SSLError, ValueError, TypeError):  # TypeError: a character that is not ASCII
                raise PydanticCustomError("tls", "Input should be certificates in PEM") from None
        return text

    @property
    def is_set(self) -> bool:
        """Whether anything differs from the defaults."""
        return self != TlsSettings()


class UnusableCertificate(Exception):
    """A file of certificates or keys cannot be used. ``member`` is the setting, the message says what is wrong."""

    def __init__(self, member: str, message: str) -> None:
        self.member = member
        super().__init__(message)


class RenewedContext(ssl.SSLContext):
    """A client's context that reads its files again before a connection if they have changed.

    Certificates are renewed while a process runs. If new files cannot be read, the connection uses those that were
    read before, and the next connection tries again.
    """

    _settings: TlsSettings
    _files: tuple[object, ...]
    _current: ssl.SSLContext

    @classmethod
    def of(cls, settings: TlsSettings, /) -> RenewedContext:
        """Return a context. Raises ``UnusableCertificate``."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context._settings, context._files = settings, _signatures(settings)
        context._current = _context(settings)
        return context

    @override
    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection of asyncio."""
        self._renew()
        return self._current.wrap_bio(*args, **options)

    def _renew(self) -> None:
        files = _signatures(self._settings)
        if files == self._files:
            return
        try:
            self._current = _context(self._settings)
        except UnusableCertificate as exc:
            _log.warning("Renewed certificates cannot be read; those read before are used.", error=str(exc))
        else:
            self._files = files


@lru_cache(maxsize=64)
def tls_context(settings: TlsSettings, /) -> RenewedContext:
    """Return the context of these settings, one for all connections. Raises ``UnusableCertificate``."""
    return RenewedContext.of(settings)


def _signatures(settings: TlsSettings) -> tuple[object, ...]:
    """Return what changes when one of the files is replaced."""
    return tuple(map(_signature, (settings.ca_file, settings.certificate_file, settings.key_file)))


def _signature(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        status = os.stat(path)  # noqa: PTH116 - follows the symbolic links that Kubernetes replaces
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_hostname == "on"
    if settings.ca_file is not None:
        _readable("ca_file", settings.ca_file)
        try:
            context.load_verify_locations(cafile=settings.ca_file)
        except ssl.SSLError:
            raise UnusableCertificate("ca_file", f"{str(settings.ca_file)!r} holds no certificates in PEM") from None
    if settings.ca:
        context.load_verify_locations(cadata=settings.ca)
    if settings.ca_file is None and not settings.ca:
        context.load_default_certs()
    if settings.certificate_file is not None:
        _load_pair(context, settings, settings.certificate_file)
    elif settings.key_file is not None:
        raise UnusableCertificate("key_file", "a key needs a certificate_file")
    return context


def _load_pair(context: ssl.SSLContext, settings: TlsSettings, certificate_file: Path) -> None:
    password = settings.key_password.get_secret_value()
    key_file = settings.key_file or certificate_file
    certificate = _readable("certificate_file", certificate_file)
    key = _readable("certificate_file" if settings.key_file is None else "key_file", key_file)
    try:
        # Without a function, OpenSSL would ask for a missing password on the terminal.
        context.load_cert_chain(certificate_file, key_file, password=lambda: password)
    except (ssl.SSLError, ValueError) as exc:  # ValueError: a password of more than 1,023 bytes
        if getattr(exc, "reason", None) == "KEY_VALUES_MISMATCH":
            message = f"the key in {str(key_file)!r} does not belong to the certificate in {str(certificate_file)!r}"
            raise UnusableCertificate("key_file", message) from None
        if b"BEGIN CERTIFICATE" not in certificate or b"PRIVATE KEY" not in key:
            message = f"{str(certificate_file)!r} holds no certificate, or {str(key_file)!r} no key, in PEM"
            raise UnusableCertificate("certificate_file", message) from None
        member = "key_password" if b"ENCRYPTED" in key else "key_file"
        raise UnusableCertificate(member, f"the key in {str(key_file)!r} cannot be read with it") from None


def _readable(member: str, path: Path) -> bytes:
    """Return the content of a file. Raises ``UnusableCertificate``."""
    try:
        return path.read_bytes()
    except OSError as exc:
        raise UnusableCertificate(member, f"the file {str(path)!r} cannot be read: {exc.strerror}") from None


class TlsNames(NamedTuple):
    """What people call the settings of a connection, for messages. ``protocol`` turns TLS on and off."""

    protocol: str
    authorities: str
    certificate: str
    hostname: str
    prefix: str = ""

    @classmethod
    def of(cls, group: str, *, protocol: str) -> TlsNames:
        """Return the variables of a group of settings."""
        certificate, hostname = f"{group}__CERTIFICATE_FILE", f"{group}__CHECK_HOSTNAME"
        return cls(protocol, f"{group}__CA_FILE", certificate, hostname, f"{group}__")

    def member(self, name: str) -> str:
        """Return what people call a member of ``TlsSettings``."""
        return f"{self.prefix}{name.upper() if self.prefix.isupper() else name}"


def tls_failure(error: BaseException, names: TlsNames) -> str | None:
    """Return why a handshake failed, and which setting to look at; ``None`` if TLS is not the reason."""
    found = _tls_error_of(error)
    if found is None:
        return None
    if isinstance(found, ssl.SSLCertVerificationError):
        return _untrusted(found, names)
    reason = found.reason or ""
    if reason in NOT_TLS:
        return f"the server does not speak TLS on this port; see {names.protocol}"
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return f"the server refuses the certificate of this client ({reason.lower()}); see {names.certificate}"
    return f"TLS failed: {reason or type(found).__name__}"


def _untrusted(error: ssl.SSLCertVerificationError, names: TlsNames) -> str:
    if error.verify_code in WRONG_NAME:
        return f"the server's certificate is of another name: {error.verify_message}; see {names.hostname}"
    if error.verify_code == EXPIRED:
        return "the server's certificate has expired: renew it on the server"
    if error.verify_code == NOT_YET_VALID:
        return "the server's certificate is not valid yet: compare the clocks"
    return f"the server's certificate is not trusted: {error.verify_message}; see {names.authorities}"


def _tls_error_of(error: BaseException | None) -> ssl.SSLError | None:
    """Return the error of TLS among an error and its causes."""
    for _ in range(8):
        if error is None:
            return None
        # aiohttp has errors that are certificate errors by their class, and have none of their members.
        if isinstance(error, ssl.SSLError) and type(error).__module__ == "ssl":
            return error
        error = error.__cause__ or error.__context__
    return None
