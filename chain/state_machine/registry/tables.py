"""Tables of the registry: validators with their beacon keys, providers, and the members of clusters."""

from dataclasses import dataclass

from chain.state_machine.tables import KeySet, Table
from domain.registry.records import Provider, Validator


@dataclass(frozen=True, slots=True)
class LastReveal:
    """The last block that began with a reveal of a validator, and the beacon of that block."""

    operator: str
    height: int
    beacon: bytes


VALIDATORS = Table(0x18, "validator", Validator, lambda r: (r.operator,))
# Key: height from which a beacon key is valid, operator that cannot be bonded before.
FIRST_KEYS = KeySet(0x1A, "first beacon key")
PROVIDERS = Table(0x1C, "provider", Provider, lambda r: (r.address,))
# Key: validator, provider that it admitted.
CLUSTERS = KeySet(0x1D, "member of a cluster")
LAST_REVEALS = Table(0x1F, "last reveal", LastReveal, lambda r: (r.operator,))
# Every key that was ever registered; none may be registered twice.
BEACON_KEYS = KeySet(0x17, "beacon key")
