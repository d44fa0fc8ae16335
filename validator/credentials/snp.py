"""AMD SEV-SNP: a report of the security processor, signed by the key of a chip and firmware version (VCEK).

The layout is that of AMD's SEV-SNP firmware ABI (document 56860). Bytes 0 to 671 are signed. The other bytes are the
signature, with unused bytes that must be zero; otherwise there would be several encodings of one report.
"""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from domain.attest.evidence import Evidence, Policy
from validator.credentials.certificates import check_path
from validator.credentials.reading import ByteReader, malformed
from validator.credentials.values import EvidenceRefused, Reason, Statement

_SIGNED: Final = 672
_VERSIONS: Final = (2, 3, 5)
_ECDSA_P384_SHA384: Final = 1
_MIGRATION, _DEBUG = 1 << 18, 1 << 19
_MASKED_KEY, _SIGNING_KEY = 1 << 1, 0b11100
_AMD: Final = "1.3.6.1.4.1.3704.1."
_TCB_OIDS: Final = {"boot_loader": "3.1", "tee": "3.2", "snp": "3.3", "microcode": "3.8", "fmc": "3.9"}
_TCB_BYTES: Final = {
    "Milan": {"boot_loader": 0, "tee": 1, "snp": 6, "microcode": 7},
    "Genoa": {"boot_loader": 0, "tee": 1, "snp": 6, "microcode": 7},
    "Turin": {"fmc": 0, "boot_loader": 1, "tee": 2, "snp": 3, "microcode": 7},
}


def read_snp(evidence: Evidence, policy: Policy, time: int) -> Statement:
    """Verify a report and its chain (VCEK, ASK, ARK) at a time, and return what it says."""
    reader = ByteReader(evidence.report, "report")
    if (version := reader.number(4)) not in _VERSIONS:
        raise EvidenceRefused(Reason.UNSUPPORTED, f"version {version} of the report")
    reader.take(4)
    guest_policy = reader.number(8)
    reader.take(32)
    level = reader.number(4)
    if reader.number(4) != _ECDSA_P384_SHA384:
        raise EvidenceRefused(Reason.UNSUPPORTED, "the algorithm of the signature")
    reader.take(16)
    key = reader.number(4)
    reader.take(4)
    field = reader.take(64)
    measurement, host_data, id_key = reader.take(48), reader.take(32), reader.take(48)
    reader.take(112)
    tcb = reader.take(8)
    reader.take(24)
    chip = reader.take(64)
    reader.take(_SIGNED - reader.at)
    signature = _read_signature(reader)
    if key & _SIGNING_KEY:
        raise EvidenceRefused(Reason.NO_DEVICE_IDENTITY, "a key of a cloud (VLEK) signed it, not that of a chip")
    if key & _MASKED_KEY or not any(chip):
        raise EvidenceRefused(Reason.NO_DEVICE_IDENTITY, "the machine masks the chip's identifier")
    path = check_path(evidence.certificates, evidence.revocation_lists, policy, time, (3,))
    _check_signature(path.signer, signature, evidence.report[:_SIGNED])
    device, versions = _match_chip(path.signer, chip, tcb)
    if level:
        raise EvidenceRefused(Reason.UNSUPPORTED, f"privilege level {level} asked for the report, not level 0")
    opening = "debugging is allowed" if guest_policy & _DEBUG else ""
    opening = opening or ("a migration agent is allowed" if guest_policy & _MIGRATION else "")
    return Statement(
        device=device,
        registers={"measurement": measurement, "host_data": host_data, "id_key_digest": id_key},
        tcb=versions,
        field=field,
        valid_until=path.valid_until,
        opening=opening,
    )


def _read_signature(reader: ByteReader) -> bytes:
    """Return the signature in DER. R and S have 72 bytes each, little endian, of which P-384 uses 48."""
    parts = []
    for _ in range(2):
        parts.append(int.from_bytes(reader.take(48), "little"))
        reader.zeros(24)
    reader.zeros(368)
    reader.end()
    return encode_dss_signature(*parts)


def _check_signature(signer: x509.Certificate, signature: bytes, signed: bytes) -> None:
    key = signer.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise EvidenceRefused(Reason.UNSUPPORTED, "the key of the chip is not on P-384")
    try:
        key.verify(signature, signed, ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        raise EvidenceRefused(Reason.BAD_SIGNATURE, "the report") from None


def _match_chip(signer: x509.Certificate, chip: bytes, tcb: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the chip's identifier and the versions of its firmware; both must equal those of its certificate."""
    fields = {
        each.oid.dotted_string.removeprefix(_AMD): each.value.value
        for each in signer.extensions
        if isinstance(each.value, x509.UnrecognizedExtension) and each.oid.dotted_string.startswith(_AMD)
    }
    device = fields.get("4", b"")
    if len(device) not in (8, 64):
        raise EvidenceRefused(Reason.NO_DEVICE_IDENTITY, "the certificate names no chip")
    if chip != device.ljust(64, b"\x00"):
        raise EvidenceRefused(Reason.BAD_SIGNATURE, "the certificate is that of another chip")
    name = fields.get("2", b"")
    if name[:1] != b"\x16" or len(name) < 2 or name[1] != len(name) - 2:
        raise malformed("the certificate does not name a product")
    product = name[2:].decode("latin-1").partition("-")[0]
    if product not in _TCB_BYTES:
        raise EvidenceRefused(Reason.UNSUPPORTED, f"the product {product!r}")
    places = _TCB_BYTES[product]
    for part, at in places.items():
        if fields.get(_TCB_OIDS[part]) != _integer(tcb[at]):
            raise EvidenceRefused(Reason.BAD_SIGNATURE, f"the certificate is for another version of {part}")
    return device, {part: str(tcb[at]) for part, at in places.items()}


def _integer(value: int) -> bytes:
    """Return a byte as DER INTEGER."""
    return b"\x02\x01" + bytes([value]) if value < 128 else b"\x02\x02\x00" + bytes([value])
