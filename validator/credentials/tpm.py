"""TPM 2.0: a quote of PCRs, signed by a restricted attestation key (AK).

The structures are TPMS_ATTEST and TPMT_SIGNATURE of the TPM 2.0 Library, part 2. A restricted key never signs bytes
from outside that begin as a quote does; that the key is one, and in which TPM, is what its certificate says. An
authority issues it after MakeCredential and ActivateCredential with the TPM. The certificate names the TPM by a
permanent identifier: the hash of its endorsement key (2.23.133.12.1, TCG's profile of credentials).
"""

from collections.abc import Mapping
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from domain.attest.evidence import Evidence, Policy
from validator.credentials.certificates import check_path
from validator.credentials.reading import ByteReader, malformed
from validator.credentials.values import EvidenceRefused, Reason, Statement

_MAGIC, _QUOTE = 0xFF544347, 0x8018
_RSASSA, _RSAPSS, _ECDSA = 0x14, 0x16, 0x18
_HASHES: Final[Mapping[int, tuple[str, hashes.HashAlgorithm]]] = {
    0x04: ("sha1", hashes.SHA1()),  # noqa: S303  policies that do not name it refuse it
    0x0B: ("sha256", hashes.SHA256()),
    0x0C: ("sha384", hashes.SHA384()),
    0x0D: ("sha512", hashes.SHA512()),
}
_AK_USAGE: Final = x509.ObjectIdentifier("2.23.133.8.3")
_PERMANENT_IDENTIFIER: Final = x509.ObjectIdentifier("1.3.6.1.5.5.7.8.3")
# 2.23.133.12.1 as DER: the assigner of an identifier that is the hash of an endorsement key.
_EK_HASH: Final = b"\x06\x05\x67\x81\x05\x0c\x01"


def read_tpm(evidence: Evidence, policy: Policy, time: int) -> Statement:
    """Verify a quote, its signature and the chain of its key at a time, and return what it says."""
    reader = ByteReader(evidence.report, "quote", "big")
    if reader.number(4) != _MAGIC or reader.number(2) != _QUOTE:
        raise malformed("it is no quote that a TPM made")
    reader.sized(2)
    field = reader.sized(2)
    reader.take(8 + 4 + 4)
    if reader.number(1) not in (0, 1):
        raise malformed("the clock is neither safe nor unsafe")
    firmware = reader.number(8)
    selection = _read_selection(reader, policy)
    digest = reader.sized(2)
    reader.end()
    signature = ByteReader(evidence.signature, "signature", "big")
    scheme, hash_name, hash_kind = signature.number(2), *_hash_of(signature.number(2), policy)
    if len(digest) != hash_kind.digest_size:
        raise malformed(f"the digest of PCRs is not one of {hash_name}")
    path = check_path(evidence.certificates, evidence.revocation_lists, policy, time, (2, 3, 4))
    _check_usage(path.signer)
    _check_signature(path.signer, scheme, hash_kind, signature, evidence.report)
    return Statement(
        device=_device(path.signer),
        registers={selection: digest},
        tcb={"firmware": ".".join(str(firmware >> shift & 0xFFFF) for shift in (48, 32, 16, 0))},
        field=field,
        valid_until=path.valid_until,
    )


def _hash_of(number: int, policy: Policy) -> tuple[str, hashes.HashAlgorithm]:
    if number not in _HASHES:
        raise EvidenceRefused(Reason.UNSUPPORTED, f"the hash {number:#06x}")
    name, kind = _HASHES[number]
    if name not in policy.hashes:
        raise EvidenceRefused(Reason.WEAK_HASH, name)
    return name, kind


def _read_selection(reader: ByteReader, policy: Policy) -> str:
    """Return the banks and numbers of the PCRs in words, such as ``sha256:0,1,7``."""
    banks: dict[str, str] = {}
    for _ in range(reader.number(4)):
        name, _ = _hash_of(reader.number(2), policy)
        bits = int.from_bytes(reader.sized(1), "little")
        numbers = [str(number) for number in range(bits.bit_length()) if bits >> number & 1]
        if name in banks or not numbers:
            raise malformed(f"the bank {name} is selected twice, or without a PCR")
        banks[name] = ",".join(numbers)
    if not banks:
        raise malformed("it has no PCR")
    return "+".join(f"{name}:{numbers}" for name, numbers in banks.items())


def _check_usage(signer: x509.Certificate) -> None:
    """Refuse a certificate that does not say that its key is an attestation key."""
    try:
        usages = signer.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        usages = x509.ExtendedKeyUsage([])
    if _AK_USAGE not in usages:
        raise EvidenceRefused(Reason.BAD_CHAIN, "the certificate is not one of an attestation key (2.23.133.8.3)")


def _check_signature(
    signer: x509.Certificate, scheme: int, kind: hashes.HashAlgorithm, signature: ByteReader, signed: bytes
) -> None:
    key = signer.public_key()
    try:
        if scheme == _ECDSA and isinstance(key, ec.EllipticCurvePublicKey):
            size = (key.key_size + 7) // 8
            parts = [_exactly(signature.sized(2), size) for _ in range(2)]
            signature.end()
            encoded = encode_dss_signature(*(int.from_bytes(part, "big") for part in parts))
            key.verify(encoded, signed, ec.ECDSA(kind))
        elif scheme in (_RSASSA, _RSAPSS) and isinstance(key, rsa.RSAPublicKey) and key.key_size >= 2048:
            part = _exactly(signature.sized(2), key.key_size // 8)
            signature.end()
            pss = padding.PSS(padding.MGF1(kind), padding.PSS.AUTO)
            key.verify(part, signed, padding.PKCS1v15() if scheme == _RSASSA else pss, kind)
        else:
            raise EvidenceRefused(Reason.UNSUPPORTED, "the algorithm of the signature")
    except InvalidSignature:
        raise EvidenceRefused(Reason.BAD_SIGNATURE, "the quote") from None


def _exactly(part: bytes, size: int) -> bytes:
    if len(part) != size:
        raise malformed(f"a part of the signature has {len(part)} bytes, not {size}")
    return part


def _device(signer: x509.Certificate) -> bytes:
    """Return the hash of the endorsement key that the certificate names, or nothing."""
    try:
        names = signer.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return b""
    found = [each.value for each in names.get_values_for_type(x509.OtherName) if each.type_id == _PERMANENT_IDENTIFIER]
    if len(found) != 1:
        return b""
    # SEQUENCE { UTF8String, OBJECT IDENTIFIER }
    value = found[0].removesuffix(_EK_HASH)
    size = len(value) - 4
    if not 0 < size < 100 or found[0] != b"\x30" + bytes([size + 2 + len(_EK_HASH), 0x0C, size]) + value[4:] + _EK_HASH:
        return b""
    return value[4:]
