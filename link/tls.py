"""The validator's certificate: self-signed P-256, stored in two files, and published in full on the chain.

The only root that callers trust is the certificate on the chain, and they expect a fixed server name in this
certificate. So neither a certificate authority nor a name service is needed. (Ed25519 certificates fail in grpcio;
P-256 works.)
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import DER_cert_to_PEM_cert

from host.files import write_durably

SERVER_NAME = "validator.assay.internal"
_LIFETIME = timedelta(days=3650)
_KEY_FILE, _CERTIFICATE_FILE = "cluster-key.pem", "cluster-cert.pem"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key; ``der`` is the part that is published on the chain."""

    key_pem: bytes
    cert_pem: bytes
    der: bytes


def make_certificate(directory: Path) -> Certificate:
    """Return the certificate in ``directory``, and make one first if there is none.

    Only the owner of the files can read them.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    key_path, cert_path = directory / _KEY_FILE, directory / _CERTIFICATE_FILE
    if not (key_path.exists() and cert_path.exists()):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        key_pem, cert_pem = new_certificate()
        # The certificate is written last, so that both files are complete if both exist.
        write_durably(key_path, key_pem)
        write_durably(cert_path, cert_pem)
    key_pem, cert_pem = key_path.read_bytes(), cert_path.read_bytes()
    der = x509.load_pem_x509_certificate(cert_pem).public_bytes(Encoding.DER)
    return Certificate(key_pem, cert_pem, der)


def new_certificate(name: str = SERVER_NAME) -> tuple[bytes, bytes]:
    """Return a new key and a self-signed certificate for ``name``, both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    # The start is a day in the past, for callers whose clock is behind; the envelope checks the time more closely.
    start = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        # The certificate is not an authority, so callers that trust it do not trust other certificates that it signs.
        # grpcio accepted such a signed certificate until the key usage below forbade it too.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key_pem, certificate.public_bytes(Encoding.PEM)


def pem_of(der: bytes) -> bytes:
    """Return the PEM form of a certificate on chain."""
    return DER_cert_to_PEM_cert(der).encode()
