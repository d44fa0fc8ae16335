"""Evidence of confidential machines, and the conditions on it, as messages and files have them.

The chain checks only sizes, hashes and names here. ``validator/credentials`` verifies what devices and vendors signed.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from domain.bounds import Distinct, Duration, Hash, Length, Pattern, Size
from domain.hashing import hash_fields, u32
from domain.readable import Readable


class Technology:
    """The names of kinds of evidence."""

    TDX: Final = "tdx"
    SGX: Final = "sgx"
    SEV_SNP: Final = "sev-snp"
    NVIDIA: Final = "nvidia"
    TPM: Final = "tpm"


TECHNOLOGIES: Final = (Technology.TDX, Technology.SGX, Technology.SEV_SNP, Technology.NVIDIA, Technology.TPM)
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

    @property
    def size(self) -> int:
        """The number of bytes of all parts."""
        lists = (*self.certificates, *self.revocation_lists)
        return len(self.report) + len(self.signature) + len(self.collateral) + sum(map(len, lists))

    @property
    def digest(self) -> bytes:
        """The hash (32 bytes) that names the evidence."""
        counts = u32(len(self.certificates)) + u32(len(self.revocation_lists))
        parts = (self.report, self.signature, self.collateral, counts, *self.certificates, *self.revocation_lists)
        return hash_fields("assay/evidence", self.technology, *parts)


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
