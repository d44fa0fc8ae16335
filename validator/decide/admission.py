"""The rules by which a validator admits providers to its cluster."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from domain.hashing import hash_fields, u64

INVITATION_BYTES = 8 + 64
"""Size (bytes) of an invitation. It consists of the time of the chain clock at which it ends, and of the operator's
signature.
"""


class Policy(StrEnum):
    """The rule that decides which providers are admitted when they pass a probe."""

    INVITED = "invited"  # providers named with ``assay validator admit``, and providers with an invitation
    OPEN = "open"  # any provider that applies
    CLOSED = "closed"  # no further provider


def invitation_sign_bytes(chain_id: str, validator: str, until: int) -> bytes:
    """Return the message that a validator signs for an invitation that ends at ``until`` (chain clock, seconds)."""
    return hash_fields("assay/invitation", chain_id, validator, u64(until))


def make_invitation(chain_id: str, validator: str, until: int, sign: Callable[[bytes], bytes]) -> bytes:
    """Return an invitation to the cluster of ``validator``. Any provider that has the invitation may use it."""
    return u64(until) + sign(invitation_sign_bytes(chain_id, validator, until))


def is_invitation(
    invitation: bytes, chain_id: str, validator: str, clock: int, verify: Callable[[bytes, bytes], bool]
) -> bool:
    """Return whether ``invitation`` comes from this validator and has not ended.

    ``verify`` checks the operator's signature: it gets the signed message and the signature.
    """
    if len(invitation) != INVITATION_BYTES:
        return False
    until = int.from_bytes(invitation[:8], "big")
    return clock < until and verify(invitation_sign_bytes(chain_id, validator, until), invitation[8:])


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission policy, the operator's decisions about single providers, and the accounts that are never admitted.

    ``named`` has the operator's decisions, keyed by the provider's address: True to admit, False to dismiss.
    ``operators`` are the operators of all other validators.
    """

    policy: Policy = Policy.INVITED
    named: Mapping[str, bool] = field(default_factory=dict)
    operators: Collection[str] = ()

    def problem(self, address: str, *, invited: bool = False) -> str:
        """Return why a provider that applies is not admitted; empty if it may be admitted.

        ``invited`` is True for a provider that showed a valid invitation. The operator of another validator is never
        admitted: as a provider, it would be a party to this validator's orders, and could then not audit them.
        """
        if address in self.operators:
            return "this validator does not admit operators of validators: use another account for the provider"
        if self.named.get(address) is False:
            return "this validator has dismissed this provider"
        if self.policy is Policy.CLOSED:
            return "this validator does not admit providers now"
        if self.policy is Policy.INVITED and address not in self.named and not invited:
            return (
                "this validator admits only invited providers: ask its operator to name this provider's address, or"
                " for an invitation (--invitation)"
            )
        return ""
