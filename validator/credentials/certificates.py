"""X.509 chains: from the key that signed the evidence to a root that the policy names by its hash."""

import base64
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtensionOID

from domain.attest.evidence import Policy
from validator.credentials.reading import malformed
from validator.credentials.values import EvidenceRefused, Reason

LIBRARY_ERRORS: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    x509.InvalidVersion,
)
"""Errors of ``cryptography`` for certificates that are not valid."""
_STRONG: Final = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_UNDERSTOOD: Final = (ExtensionOID.BASIC_CONSTRAINTS, ExtensionOID.KEY_USAGE, ExtensionOID.EXTENDED_KEY_USAGE)
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\n([A-Za-z0-9+/=\n]+)-----END CERTIFICATE-----\n")


@dataclass(frozen=True)
class Path:
    """A chain that was verified, the signer first. ``valid_until`` is in seconds since 1970."""

    certificates: tuple[x509.Certificate, ...]
    valid_until: int

    @property
    def signer(self) -> x509.Certificate:
        """The certificate of the key that signs evidence."""
        return self.certificates[0]


def seconds(moment: datetime) -> int:
    """Return a time of a certificate in seconds since 1970."""
    return int(moment.timestamp())


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore the library's warning that AMD gives its certificates the serial number zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load_certificate(data: bytes) -> x509.Certificate:
    """Return a certificate from DER; EvidenceRefused if it is not one, or has more than one encoding."""
    try:
        with quietly():
            certificate = x509.load_der_x509_certificate(data)
            list(certificate.extensions)
            for name in (certificate.subject, certificate.issuer):
                name.rfc4514_string()  # names are parsed when they are read
    except LIBRARY_ERRORS as error:
        raise malformed(f"a certificate cannot be read ({error})") from None
    _check_end(data, certificate.signature)
    return certificate


def _check_end(data: bytes, signature: bytes) -> None:
    """Refuse a certificate or list (DER) that does not end with its signature, whose last byte has no unused bits.

    Parsers take other numbers of unused bits as well, which no signature covers.
    """
    if not data.endswith(b"\x00" + signature):
        raise malformed("a certificate or revocation list does not end with its signature")


def split_pem(text: bytes) -> tuple[bytes, ...]:
    """Return the certificates (DER) of a text of PEM blocks; EvidenceRefused if a byte of it could be another one."""
    blocks = tuple(_decoded(match.group(1)) for match in _PEM.finditer(text))
    if b"".join(map(_encoded, blocks)) != text:
        raise malformed("a chain is not in the one form of PEM")
    for block in blocks:
        load_certificate(block)
    return blocks


def _decoded(block: bytes) -> bytes:
    try:
        return base64.b64decode(block.replace(b"\n", b""), validate=True)
    except ValueError:
        raise malformed("a chain is not in base64") from None


def _encoded(block: bytes) -> bytes:
    text = base64.b64encode(block)
    lines = b"".join(text[at : at + 64] + b"\n" for at in range(0, len(text), 64))
    return b"-----BEGIN CERTIFICATE-----\n" + lines + b"-----END CERTIFICATE-----\n"


def check_root(root: bytes, policy: Policy) -> None:
    """Refuse a root (DER) whose hash the policy does not have."""
    if sha256(root).digest() not in policy.roots:
        raise EvidenceRefused(Reason.UNKNOWN_ROOT, f"its root has the SHA-256 {sha256(root).hexdigest()}")


def check_voted(certificates: Sequence[bytes], policy: Policy) -> None:
    """Refuse a chain with a certificate (DER) that the policy revokes."""
    for data in certificates:
        if sha256(data).digest() in policy.revoked:
            raise EvidenceRefused(Reason.REVOKED, "the policy revokes it")


def check_path(
    certificates: Sequence[bytes], lists: Sequence[bytes], policy: Policy, time: int, lengths: Sequence[int]
) -> Path:
    """Verify a chain at a time (seconds since 1970), with the revocation lists that came with it.

    ``lengths`` are the numbers of certificates that a chain of this technology may have.
    """
    if len(certificates) not in lengths:
        raise malformed(f"the chain has {len(certificates)} certificates, not {' or '.join(map(str, lengths))}")
    if len(set(certificates)) != len(certificates):
        raise malformed("the chain has a certificate twice")
    check_root(certificates[-1], policy)
    check_voted(certificates, policy)
    chain = tuple(map(load_certificate, certificates))
    for depth, (issued, issuer) in enumerate(pairwise((*chain, chain[-1]))):
        _check_issued(issued, issuer)
        _check_authority(issuer, depth if issuer is not issued else depth - 1)
    _check_signer(chain[0])
    ends = [seconds(each.not_valid_after_utc) for each in chain]
    for each in chain:
        _check_known(each.extensions)
        if not seconds(each.not_valid_before_utc) <= time <= seconds(each.not_valid_after_utc):
            raise EvidenceRefused(Reason.EXPIRED, each.subject.rfc4514_string())
    ends += _check_revoked(chain, lists, policy, time)
    return Path(chain, min(ends))


def _check_issued(issued: x509.Certificate, issuer: x509.Certificate) -> None:
    try:
        if not isinstance(issued.signature_hash_algorithm, _STRONG):
            raise EvidenceRefused(Reason.WEAK_HASH, issued.subject.rfc4514_string())
        issued.verify_directly_issued_by(issuer)
    except LIBRARY_ERRORS:
        raise EvidenceRefused(Reason.BAD_CHAIN, issued.subject.rfc4514_string()) from None


def _check_authority(certificate: x509.Certificate, below: int) -> None:
    """Refuse an issuer that is no authority, or not for as many authorities ``below`` it."""
    constraints = _extension(certificate, x509.BasicConstraints)
    usage = _extension(certificate, x509.KeyUsage)
    may_sign = usage is None or usage.key_cert_sign
    if constraints is None or not constraints.ca or not may_sign:
        raise EvidenceRefused(Reason.BAD_CHAIN, f"{certificate.subject.rfc4514_string()} is no authority")
    if constraints.path_length is not None and below > constraints.path_length:
        raise EvidenceRefused(Reason.BAD_CHAIN, f"{certificate.subject.rfc4514_string()} allows a shorter chain only")


def _check_signer(certificate: x509.Certificate) -> None:
    constraints = _extension(certificate, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        raise EvidenceRefused(Reason.BAD_CHAIN, "the signer of the evidence is an authority")


def _check_known(extensions: x509.Extensions) -> None:
    for extension in extensions:
        if extension.critical and extension.oid not in _UNDERSTOOD:
            oid = extension.oid.dotted_string
            raise EvidenceRefused(Reason.UNSUPPORTED, f"the critical extension {oid}")


def _check_revoked(chain: Sequence[x509.Certificate], lists: Sequence[bytes], policy: Policy, time: int) -> list[int]:
    """Refuse a chain with a revoked certificate; return when the lists end.

    A certificate needs a list if it says where its issuer publishes one. No list is about the root.
    """
    loaded = [_load_list(data, chain, time) for data in lists]
    for issued, issuer in pairwise(chain):
        own = [each for each, signer in loaded if signer == issuer]
        for each in own:
            if each.get_revoked_certificate_by_serial_number(issued.serial_number) is not None:
                raise EvidenceRefused(Reason.REVOKED, issued.subject.rfc4514_string())
        names_list = _extension(issued, x509.CRLDistributionPoints) is not None
        if policy.needs_revocation_lists and names_list and not own:
            raise EvidenceRefused(Reason.NO_REVOCATION_LIST, issued.subject.rfc4514_string())
    return [seconds(each.next_update_utc) for each, _ in loaded if each.next_update_utc is not None]


def _load_list(
    data: bytes, chain: Sequence[x509.Certificate], time: int
) -> tuple[x509.CertificateRevocationList, x509.Certificate]:
    """Return a revocation list (DER) and the authority of the chain that signed it."""
    try:
        loaded = x509.load_der_x509_crl(data)
        _check_end(data, loaded.signature)
        _check_known(loaded.extensions)
        issuer = next((each for each in chain[1:] if each.subject == loaded.issuer), None)
        is_signed = issuer is not None and loaded.is_signature_valid(issuer.public_key())  # type: ignore[arg-type]
        last, following = loaded.last_update_utc, loaded.next_update_utc
    except LIBRARY_ERRORS as error:
        raise malformed(f"a revocation list cannot be read ({error})") from None
    if issuer is None or not is_signed:
        raise EvidenceRefused(Reason.BAD_CHAIN, "a revocation list is not signed by an authority of the chain")
    if following is None or not seconds(last) <= time <= seconds(following):
        raise EvidenceRefused(Reason.EXPIRED, "a revocation list")
    return loaded, issuer


_E = TypeVar("_E", bound=x509.ExtensionType)


def _extension(certificate: x509.Certificate, kind: type[_E]) -> _E | None:
    """Return an extension of a certificate, or None."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
