"""The rules by which a validator admits providers to its cluster."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from domain.bounds import Bps, Multiple
from domain.hashing import hash_fields, u32, u64

INVITATION_BYTES = 8 + 4 + 4 + 64
"""Size (bytes) of an invitation. It consists of the time of the chain clock at which it ends, of the two numbers of the
backing, and of the operator's signature.
"""


@dataclass(frozen=True, slots=True)
class Backing:
    """Two numbers that a validator's tasks for a provider state about the bonds behind a share.

    The provider's bond is ``multiple`` times the price of the share. ``cover`` (bps) is the part of the job bond that
    pays the share if another provider's fault makes it void.
    """

    multiple: Multiple = 1
    cover: Bps = 0


UNCOVERED = Backing()
"""The least backing: a bond of the price of the share, and no cover."""


NEWCOMER_ROUNDS, NEWCOMER_ROUNDS_MAX = 1, 256
"""Closed rounds that may wait for their panels while one of them has a share of a provider without a verified share: if
the operator sets nothing else, and the highest setting.
"""


class Policy(StrEnum):
    """The rule that decides which providers are admitted when they pass a probe."""

    INVITED = "invited"  # providers named with ``assay validator admit``, and providers with an invitation
    OPEN = "open"  # any provider that applies
    CLOSED = "closed"  # no further provider


def invitation_sign_bytes(chain_id: str, validator: str, until: int, backing: Backing) -> bytes:
    """Return the message that a validator signs for an invitation that ends at ``until`` (chain clock, seconds)."""
    return hash_fields("assay/invitation", chain_id, validator, u64(until), u32(backing.multiple), u32(backing.cover))


def make_invitation(
    chain_id: str, validator: str, until: int, backing: Backing, sign: Callable[[bytes], bytes]
) -> bytes:
    """Return an invitation to the cluster of ``validator``. Any provider that has the invitation may use it."""
    numbers = u64(until) + u32(backing.multiple) + u32(backing.cover)
    return numbers + sign(invitation_sign_bytes(chain_id, validator, until, backing))


def read_invitation(
    invitation: bytes, chain_id: str, validator: str, clock: int, verify: Callable[[bytes, bytes], bool]
) -> Backing | None:
    """Return the backing of an ``invitation``; None if it does not come from this validator, or has ended.

    ``verify`` checks the operator's signature: it gets the signed message and the signature.
    """
    if len(invitation) != INVITATION_BYTES:
        return None
    until, multiple, cover = (int.from_bytes(invitation[at:to], "big") for at, to in ((0, 8), (8, 12), (12, 16)))
    backing = Backing(multiple, cover)
    document = invitation_sign_bytes(chain_id, validator, until, backing)
    return backing if clock < until and verify(document, invitation[16:]) else None


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission policy, the operator's decisions about single providers, and the accounts that are never admitted.

    ``named`` has the operator's decisions, keyed by the provider's address: True to admit, False to dismiss.
    ``operators`` are the operators of all other validators. ``backings`` has what the operator decided for single
    providers, and ``backing`` what it decided for all others.
    """

    policy: Policy = Policy.INVITED
    named: Mapping[str, bool] = field(default_factory=dict)
    operators: Collection[str] = ()
    backings: Mapping[str, Backing] = field(default_factory=dict)
    backing: Backing = UNCOVERED

    def backing_of(self, address: str) -> Backing:
        """Return what tasks for a provider state about the bonds behind its shares."""
        return self.backings.get(address, self.backing)

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
