"""The values of the verifiers: bindings, statements, credentials, and reasons of refusals.

Evidence and policies are in :mod:`domain.attest.evidence`, because messages have them too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256, sha512
from types import MappingProxyType
from typing import Final

from domain.attest.evidence import Technology
from domain.bounds import Address, ChainId, Hash, Number
from domain.errors import Expected
from domain.hashing import encode_fields, hash_fields
from domain.readable import Readable

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
    WRONG_CREDENTIAL = "the evidence is of another device than its owner says"
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
class Binding(Readable):
    """The party, chain and executor that evidence is about, and a beacon that says how recent it is.

    ``certificate`` is the SHA-256 of the party's TLS certificate (DER), and zeros if it serves nothing. ``executor`` is
    the digest of its executor. ``beacon_time`` is the time (seconds since 1970) in the header of the block that made
    ``beacon`` known. The verifier takes it from the chain, never from the party that is attested.
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


def certificate_digest(certificate: bytes) -> bytes:
    """Return the hash of a party's certificate (DER) that a binding has: zeros for a party without one."""
    return sha256(certificate).digest() if certificate else bytes(32)


def signed_field(technology: str, report_data: bytes) -> bytes:
    """Return the part of the report data that a device of this technology signs: all 64 bytes, or the first 32."""
    return report_data[: FIELD_SIZES[technology]]
