"""The values of the verifiers: policies, evidence, bindings, statements, credentials, and reasons of refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha512
from types import MappingProxyType
from typing import Annotated, Final

from domain.bounds import Address, ChainId, Distinct, Duration, Hash, Length, Number, Pattern, Size
from domain.errors import Expected
from domain.hashing import encode_fields, hash_fields
from domain.readable import Readable


class Technology:
    """The names of kinds of evidence."""

    TDX: Final = "tdx"
    SGX: Final = "sgx"
    SEV_SNP: Final = "sev-snp"
    NVIDIA: Final = "nvidia"
    TPM: Final = "tpm"


TECHNOLOGIES: Final = (Technology.TDX, Technology.SGX, Technology.SEV_SNP, Technology.NVIDIA, Technology.TPM)
FIELD_SIZES: Final[Mapping[str, int]] = MappingProxyType(
    {
        Technology.TDX: 64,
        Technology.SGX: 64,
        Technology.SEV_SNP: 64,
        # A GPU takes a nonce of 32 bytes, and a TPM at least as much as the largest hash it has.
        Technology.NVIDIA: 32,
        Technology.TPM: 32,
    }
)
"""Bytes that a requester chooses and the device signs, for each technology."""

TechnologyName = Annotated[
    str, Pattern("a technology", "|".join(TECHNOLOGIES), f"use one of {', '.join(TECHNOLOGIES)}")
]
_WORD = Pattern("a name", r"[ -~]{1,160}", "use 1 to 160 printable characters of ASCII")
Word = Annotated[str, _WORD]
Version = Annotated[
    str, Pattern("a version", r"[0-9A-Fa-f]{1,16}(\.[0-9A-Fa-f]{1,16}){0,7}", "use numbers and dots, such as 590.48.01")
]
_STATUSES = (
    "UpToDate",
    "SWHardeningNeeded",
    "ConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "OutOfDate",
    "OutOfDateConfigurationNeeded",
)
Status = Annotated[str, Pattern("a status of Intel", "|".join(_STATUSES), f"use one of {', '.join(_STATUSES)}")]
"""Intel's status of a platform. ``Revoked`` is none that a policy can accept."""
HashName = Annotated[str, Pattern("a hash", "sha(1|256|384|512)", "use sha256, sha384, sha512, or the weak sha1")]
CertificateBytes = Annotated[bytes, Size(1, 8 << 10)]
RevocationListBytes = Annotated[bytes, Size(1, 256 << 10)]


class Reason(Enum):
    """A reason why evidence gives no credential. The value is a text for people."""

    MALFORMED = "the evidence does not have the format of its technology"
    UNSUPPORTED = "the evidence has a version or algorithm that is not accepted"
    WRONG_TECHNOLOGY = "the policy accepts another technology"
    UNKNOWN_ROOT = "the certificate chain does not end at a root of the policy"
    BAD_CHAIN = "a certificate was not issued by the next one of the chain"
    BAD_SIGNATURE = "a signature of the evidence does not verify"
    EXPIRED = "a certificate or its collateral is not valid at this time"
    REVOKED = "a certificate of the chain is revoked"
    NO_REVOCATION_LIST = "a certificate has no current revocation list in the evidence"
    WRONG_REPORT_DATA = "the device signed other report data"
    WRONG_EXECUTOR = "the policy does not accept this executor"
    TOO_OLD = "the beacon is older than the policy allows, or not yet known"
    OPEN_TO_HOST = "the owner of the machine can look into it: debugging or migration is allowed"
    NO_DEVICE_IDENTITY = "the evidence identifies no single device"
    WRONG_MEASUREMENT = "the measurement is none of the policy's"
    OUTDATED_TCB = "the trusted computing base is below the policy's least version"
    WEAK_HASH = "the evidence uses a hash that the policy does not accept"
    NO_LIBRARY = "the library that verifies this technology is not installed"

    @property
    def word(self) -> str:
        """The name for programs, in lower case."""
        return self.name.lower()


class EvidenceRefused(Expected):
    """The error of evidence that gives no credential. It has the reason, and a detail in words."""

    def __init__(self, why: Reason, detail: str = "", remedy: str = "") -> None:
        """Store the reason; the text is the reason in words and the detail."""
        super().__init__(f"{why.value}: {detail}" if detail else why.value, remedy)
        self.why = why

    @property
    def word(self) -> str:
        """The reason, for programs."""
        return self.why.word


@dataclass(frozen=True, slots=True)
class Evidence(Readable):
    """Bytes that a device and its vendor signed, with all that a verifier needs beside them.

    ``certificates`` are DER, the signer first and the root last. ``collateral`` is Intel's JSON.
    """

    technology: TechnologyName
    report: Annotated[bytes, Size(1, 16 << 10)]
    signature: Annotated[bytes, Size(0, 1 << 10)] = b""
    certificates: Annotated[tuple[CertificateBytes, ...], Length(0, 6)] = ()
    revocation_lists: Annotated[tuple[RevocationListBytes, ...], Length(0, 6)] = ()
    collateral: Annotated[bytes, Size(0, 256 << 10)] = b""


@dataclass(frozen=True, slots=True)
class Register(Readable):
    """A part of a measurement, under the name that its technology has for it."""

    name: Word
    value: Annotated[bytes, Size(1, 64)]


@dataclass(frozen=True, slots=True)
class Measurement(Readable):
    """The registers of one image that is accepted."""

    registers: Annotated[tuple[Register, ...], Length(1, 64)]


@dataclass(frozen=True, slots=True)
class Least(Readable):
    """The least version of a component of the trusted computing base."""

    part: Word
    version: Version


@dataclass(frozen=True, slots=True)
class Policy(Readable):
    """The conditions on evidence that gives a credential. No policy accepts debugging, or a device without an identity.

    ``roots`` are SHA-256 hashes of root certificates (DER). Evidence must have every register of one measurement, and
    no component below ``least_tcb``. ``statuses`` are those of Intel's TCB that are
    accepted, and ``hashes`` those of a TPM. ``max_age`` is the age of the beacon in seconds. ``revoked`` are SHA-256
    hashes of certificates (DER). Without ``needs_revocation_lists``, a vendor's certificate counts as not revoked if
    the evidence has no list.
    """

    technology: TechnologyName
    roots: Annotated[tuple[Hash, ...], Length(1, 16), Distinct()]
    measurements: Annotated[tuple[Measurement, ...], Length(1, 64)]
    executors: Annotated[tuple[Hash, ...], Length(1, 64), Distinct()]
    max_age: Duration
    least_tcb: Annotated[tuple[Least, ...], Length(0, 16)] = ()
    statuses: Annotated[tuple[Status, ...], Length(0, 16), Distinct()] = ("UpToDate",)
    hashes: Annotated[tuple[HashName, ...], Length(0, 16), Distinct()] = ("sha256", "sha384", "sha512")
    revoked: Annotated[tuple[Hash, ...], Length(0, 1024), Distinct()] = ()
    needs_revocation_lists: bool = True


@dataclass(frozen=True, slots=True)
class Binding(Readable):
    """The party, chain and executor that evidence is about, and a beacon that says how recent it is.

    ``certificate`` is the SHA-256 of the party's TLS certificate (DER), ``executor`` the digest of its executor.
    ``beacon_time`` is the time on the chain clock at which ``beacon`` became known. The verifier takes it from the
    chain, never from the party that is attested.
    """

    chain_id: ChainId
    address: Address
    certificate: Hash
    executor: Hash
    beacon: Hash
    beacon_time: Number

    def report_data(self) -> bytes:
        """Return the 64 bytes that the device must sign: a tagged SHA-512 of all fields but the time."""
        parts = (self.chain_id, self.address, self.certificate, self.executor, self.beacon)
        return sha512(encode_fields("assay/credential/report-data", *parts)).digest()


@dataclass(frozen=True, slots=True)
class Statement(Readable):
    """The content of evidence, after all its signatures were verified.

    ``device`` is the vendor's identifier, or empty. ``opening`` says in words how the owner can look in, or is empty.
    ``valid_until`` is in seconds since 1970.
    """

    device: bytes
    registers: Mapping[str, bytes]
    tcb: Mapping[str, str]
    field: bytes
    valid_until: int
    opening: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Credential(Readable):
    """The proof of one device. ``id`` is the same for all credentials of a device, so each device has one.

    ``report_data`` are the bytes that the device signed for its requester.
    """

    id: bytes
    technology: str
    device: bytes
    measurement: Mapping[str, bytes]
    tcb: Mapping[str, str]
    report_data: bytes
    valid_until: int


_VENDORS: Final[Mapping[str, str]] = MappingProxyType(
    {Technology.TDX: "intel", Technology.SGX: "intel", Technology.SEV_SNP: "amd"}
)


def credential_id(technology: str, device: bytes) -> bytes:
    """Return the id of a device's credential (32 bytes). A processor has one id for all technologies of its vendor.

    It is a pseudonym: a party that knows the vendor's identifiers can compute it.
    """
    return hash_fields("assay/credential", _VENDORS.get(technology, technology), device)


def signed_field(technology: str, report_data: bytes) -> bytes:
    """Return the part of the report data that a device of this technology signs: all 64 bytes, or the first 32."""
    return report_data[: FIELD_SIZES[technology]]
