"""Certificates: settings that cannot be used are named, and renewed files are read by the next connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.tls import RenewedContext, TlsNames, TlsSettings, UnusableCertificate, tls_context, tls_failure
from tests.support.certificates import Authority

NAMES = TlsNames.of("CLEARSPAN_X__TLS", protocol="CLEARSPAN_X__PROTOCOL")


def _settings(**members: object) -> TlsSettings:
    return TlsSettings.model_validate(members)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def _split(file: Path) -> tuple[Path, Path]:
    """Return a file with the certificate and one with the key."""
    key, _, certificate = file.read_text().partition("-----BEGIN CERTIFICATE-----")
    certificate_file, key_file = file.with_suffix(".crt"), file.with_suffix(".key")
    certificate_file.write_text(f"-----BEGIN CERTIFICATE-----{certificate}")
    key_file.write_text(key)
    return certificate_file, key_file


def test_certificate_and_key_may_be_in_one_file_or_in_two(authority: Authority) -> None:
    both = authority.issue("client", password="p%41@ss: word")
    certificate, key = _split(authority.issue("plain"))

    tls_context(_settings(certificate_file=both, key_password="p%41@ss: word"))
    tls_context(_settings(ca_file=authority.file, certificate_file=certificate, key_file=key))
    tls_context(_settings(ca=authority.file.read_text()))


@pytest.mark.parametrize(
    ("members", "member", "reason"),
    [
        ({"ca_file": "nowhere"}, "ca_file", "the file 'nowhere' cannot be read: No such file or directory"),
        ({"ca_file": "."}, "ca_file", "the file '.' cannot be read: Is a directory"),
        ({"ca_file": "text"}, "ca_file", "'text' holds no certificates in PEM"),
        ({"certificate_file": "nowhere"}, "certificate_file", "the file 'nowhere' cannot be read"),
        ({"certificate_file": "text"}, "certificate_file", "'text' holds no certificate, or 'text' no key, in PEM"),
        ({"certificate_file": "a.pem", "key_file": "nowhere"}, "key_file", "the file 'nowhere' cannot be read"),
        ({"certificate_file": "a.pem", "key_file": "b.pem"}, "key_file", "does not belong to the certificate"),
        ({"certificate_file": "locked.pem"}, "key_password", "the key in 'locked.pem' cannot be read with it"),
        ({"certificate_file": "locked.pem", "key_password": "no"}, "key_password", "cannot be read with it"),
        ({"certificate_file": "locked.pem", "key_password": "n" * 2_000}, "key_password", "cannot be read"),
        ({"key_file": "a.pem"}, "key_file", "a key needs a certificate_file"),
    ],
)
def test_unusable_file_is_named_with_its_setting(
    members: dict[str, object], member: str, reason: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(authority.file.parent)
    Path("text").write_text("no certificate")
    authority.issue("a")
    authority.issue("b")
    authority.issue("locked", password="S3CR3T")

    with pytest.raises(UnusableCertificate, match=r".") as raised:
        RenewedContext.of(_settings(**members))

    assert (raised.value.member, reason in str(raised.value)) == (member, True), str(raised.value)
    assert "S3CR3T" not in str(raised.value)


@pytest.mark.parametrize("text", ["no certificate", "certificat reçu"])
def test_text_that_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Input should be certificates in PEM"):
        _settings(ca=text)


def test_other_failure_is_not_explained() -> None:
    assert tls_failure(ConnectionRefusedError(), NAMES) is None


def test_password_of_a_key_is_not_shown() -> None:
    settings = _settings(key_password="S3CR3T")

    assert "S3CR3T" not in f"{settings!r} {settings.model_dump()}"
