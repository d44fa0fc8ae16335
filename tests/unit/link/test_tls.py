"""A caller trusts the one certificate that the chain names, and nothing else."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from link import types as t
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.tls import SERVER_NAME, Certificate, make_certificate, new_certificate
from tests.unit.link.support import CHAIN, PROVIDER, running


def der_of(cert_pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(cert_pem).public_bytes(Encoding.DER)


def issued_by(issuer: Certificate) -> Certificate:
    """A certificate for the right name that the trusted certificate's key has signed."""
    parent = x509.load_pem_x509_certificate(issuer.cert_pem)
    parent_key = load_pem_private_key(issuer.key_pem, None)
    assert isinstance(parent_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "child")]))
        .issuer_name(parent.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .sign(parent_key, hashes.SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    # The whole chain is presented, as an attacker would.
    cert_pem = certificate.public_bytes(Encoding.PEM) + issuer.cert_pem
    return Certificate(key_pem, cert_pem, certificate.public_bytes(Encoding.DER))


def refused_by(presented: Certificate, trusted_der: bytes, directory: Path) -> ClusterErrorKind:
    with (
        running(directory, certificate=presented) as up,
        ClusterClient(up.endpoint, trusted_der, PROVIDER, CHAIN, 5.0, tries=1) as client,
        pytest.raises(ClusterError) as refused,
    ):
        client.call(t.POLL, t.PollRequest("1", ()))
    assert up.answers.asked == []
    return refused.value.kind


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_the_certificate_of_the_chain_is_accepted(tmp_path: Path, host: str) -> None:
    with running(tmp_path, host=host) as up, up.client() as client:
        assert client.call(t.POLL, t.PollRequest("1", ())).retry_after_ms == 100


def test_another_certificate_is_refused(tmp_path: Path) -> None:
    trusted = make_certificate(tmp_path / "trusted")
    other = make_certificate(tmp_path / "other")
    assert refused_by(other, trusted.der, tmp_path) is ClusterErrorKind.UNREACHABLE


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    key_pem, cert_pem = new_certificate("elsewhere.example")
    presented = Certificate(key_pem, cert_pem, der_of(cert_pem))
    assert refused_by(presented, presented.der, tmp_path) is ClusterErrorKind.UNREACHABLE


def test_a_certificate_issued_by_the_trusted_one_is_refused(tmp_path: Path) -> None:
    trusted = make_certificate(tmp_path / "trusted")
    assert refused_by(issued_by(trusted), trusted.der, tmp_path) is ClusterErrorKind.UNREACHABLE


def test_the_files_are_private_and_read_again(tmp_path: Path) -> None:
    first = make_certificate(tmp_path / "tls")
    assert make_certificate(tmp_path / "tls") == first
    for path in (tmp_path / "tls").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first.der) <= 4096  # what the chain takes
