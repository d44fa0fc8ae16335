"""The rules by which a validator admits providers to its cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Policy(StrEnum):
    """The rule that decides which providers are admitted when they pass a probe."""

    OPEN = "open"  # any provider that applies
    LISTED = "listed"  # only those named with ``assay validator admit``
    CLOSED = "closed"  # no further provider


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission policy, and the operator's decisions about single providers.

    ``named`` has the decisions by the provider's address: True to admit, False to dismiss.
    """

    policy: Policy = Policy.OPEN
    named: Mapping[str, bool] = field(default_factory=dict)

    def problem(self, address: str) -> str:
        """Return why a provider that applies is not admitted; empty if it may be admitted."""
        if self.named.get(address) is False:
            return "this validator has dismissed this provider"
        if self.policy is Policy.CLOSED:
            return "this validator does not admit providers now"
        if self.policy is Policy.LISTED and address not in self.named:
            return "this validator admits only listed providers: ask its operator to list this provider's address"
        return ""
