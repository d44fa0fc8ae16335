"""NVIDIA GPUs in confidential computing mode: SPDM measurements, signed by a key of the GPU's firmware.

A report is the request GET_MEASUREMENTS of DMTF DSP0274 (SPDM 1.1) and its response, as NVIDIA's driver returns them.
The chain is firmware key, device, provisioner, model, root. NVIDIA revokes devices by OCSP only, so a policy must name
a revoked device itself.
"""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509.oid import NameOID

from domain.attest.evidence import Evidence, Policy
from validator.credentials.certificates import check_path
from validator.credentials.reading import ByteReader, malformed
from validator.credentials.values import EvidenceRefused, Reason, Statement

_REQUEST, _RESPONSE = b"\x11\xe0\x01\xff", b"\x11\x60"
_SIGNATURE: Final = 96
_DRIVER, _VBIOS, _FIRMWARE_ID = 3, 6, 20
_DMTF: Final = 1
_FIRMWARE_OID: Final = x509.ObjectIdentifier("2.23.133.5.4.1.1")


def read_nvidia(evidence: Evidence, policy: Policy, time: int) -> Statement:
    """Verify a report and its chain of five certificates at a time, and return what it says."""
    reader = ByteReader(evidence.report, "report")
    if reader.take(4) != _REQUEST:
        raise EvidenceRefused(Reason.UNSUPPORTED, "the request is not GET_MEASUREMENTS of SPDM 1.1 for all, signed")
    nonce = reader.take(32)
    reader.take(1)
    if reader.take(2) != _RESPONSE:
        raise EvidenceRefused(Reason.UNSUPPORTED, "the response is not MEASUREMENTS of SPDM 1.1")
    reader.take(2)
    blocks = reader.number(1)
    registers = _read_measurements(ByteReader(reader.sized(3), "measurements"), blocks)
    reader.take(32)
    fields = _read_fields(ByteReader(reader.sized(2), "opaque data"))
    signature = reader.take(_SIGNATURE)
    reader.end()
    path = check_path(evidence.certificates, evidence.revocation_lists, policy, time, (5,))
    _check_signature(path.signer, signature, evidence.report[:-_SIGNATURE])
    _check_firmware(path.signer, fields.get(_FIRMWARE_ID, b""))
    return Statement(
        device=_device(path.certificates[1]),
        registers=registers,
        tcb=_versions(fields),
        field=nonce,
        valid_until=path.valid_until,
        notes=("it proves that the GPU answered, not which machine uses it",),
    )


def _read_measurements(reader: ByteReader, blocks: int) -> dict[str, bytes]:
    """Return the measurements by their index, which counts up from 1."""
    registers = {}
    for index in range(1, blocks + 1):
        if reader.number(1) != index or reader.number(1) != _DMTF:
            raise malformed(f"measurement {index} is not in its place")
        block = ByteReader(reader.sized(2), "measurement")
        block.take(1)
        registers[str(index)] = block.sized(2)
        block.end()
    reader.end()
    return registers


def _read_fields(reader: ByteReader) -> dict[int, bytes]:
    """Return the opaque fields by their kind; each kind may appear once."""
    fields: dict[int, bytes] = {}
    while reader.left:
        kind, value = reader.number(2), reader.sized(2)
        if kind in fields:
            raise malformed(f"the opaque field {kind} appears twice")
        fields[kind] = value
    return fields


def _check_signature(signer: x509.Certificate, signature: bytes, signed: bytes) -> None:
    key = signer.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise EvidenceRefused(Reason.UNSUPPORTED, "the key of the GPU is not on P-384")
    half = _SIGNATURE // 2
    encoded = encode_dss_signature(*(int.from_bytes(part, "big") for part in (signature[:half], signature[half:])))
    try:
        key.verify(encoded, signed, ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        raise EvidenceRefused(Reason.BAD_SIGNATURE, "the report") from None


def _check_firmware(signer: x509.Certificate, digest: bytes) -> None:
    """Refuse a report of other firmware than the firmware whose key signed it."""
    try:
        named = signer.extensions.get_extension_for_oid(_FIRMWARE_OID).value
    except x509.ExtensionNotFound:
        named = None
    if not isinstance(named, x509.UnrecognizedExtension) or len(digest) != 48 or digest not in named.value:
        raise EvidenceRefused(Reason.BAD_SIGNATURE, "the certificate is that of other firmware")


def _device(certificate: x509.Certificate) -> bytes:
    """Return the serial number in the subject of the device's certificate, or nothing."""
    numbers = certificate.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
    return str(numbers[0].value).encode() if len(numbers) == 1 else b""


def _versions(fields: dict[int, bytes]) -> dict[str, str]:
    """Return the versions of driver and VBIOS, as NVIDIA writes them."""
    driver = fields.get(_DRIVER, b"").removesuffix(b"\x00").decode("latin-1")
    vbios = fields.get(_VBIOS, b"")
    versions = {"driver": driver} if driver else {}
    if len(vbios) == 8:
        versions["vbios"] = ".".join(f"{byte:02X}" for byte in (*reversed(vbios[:4]), vbios[4]))
    return versions
