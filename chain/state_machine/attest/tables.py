"""Tables of the attest component."""

from dataclasses import dataclass
from typing import ClassVar

from chain.state_machine.kinds import Due
from chain.state_machine.tables import BytesTable, KeySet, Numbers, Table
from domain.attest.evidence import Evidence
from domain.attest.records import Attestation, AttestPolicy, AttestSeat, Credential, KeptBeacon
from domain.hashing import hash_fields, u64


@dataclass(frozen=True, slots=True)
class AttestSubject:
    """The subject of a lot that draws the panel about an account's evidence."""

    PURPOSE: ClassVar[str] = "attest"
    owner: str
    number: int

    @property
    def id(self) -> bytes:
        """The identifier to which the seed and the key of the lot are bound."""
        return hash_fields("assay/attest/panel", self.owner, u64(self.number))


ATTEST_POLICIES = Table(0x80, "policy about evidence", AttestPolicy, lambda r: (r.name,))
# Number of policies that are in force.
LIVE_POLICIES = Numbers(0x81, "count of policies about evidence")
BEACONS = Table(0x82, "beacon for evidence", KeptBeacon, lambda r: (r.number,))
# Key: beacon; value: its number.
BEACON_NUMBERS = Numbers(0x83, "number of a beacon for evidence")
LAST_BEACON = Numbers(0x84, "number of the last beacon for evidence")
ATTESTATIONS = Table(0x85, "attestation", Attestation, lambda r: (r.owner,))
# Evidence of attestations that are not decided. Key: owner.
EVIDENCE = Table(0x86, "evidence of a device", Evidence)
# Key: owner, number of the seat.
ATTEST_SEATS = Table(0x87, "seat of a panel about evidence", AttestSeat, lambda r: (r.owner, r.seat))
# Seats that have to commit or to reveal. Key: validator, owner; value: 1 + number of the seat.
ATTEST_DUTIES = Numbers(0x88, "duty about evidence")
# Number of attestations that are not decided.
OPEN_ATTESTATIONS = Numbers(0x89, "count of open attestations")
CREDENTIALS = Table(0x8A, "credential", Credential, lambda r: (r.id,))
# Key: last owner, id of the credential.
OWNED = KeySet(0x8B, "credential of an account")
# Key: owner; value: the id of the credential that the account attested last.
CURRENT = BytesTable(0x8C, "current credential")

# A time of a panel about evidence is over. Parts of an entry: owner, number of the attestation.
ATTEST_DUE = Due("attest", 63, lane=0)
