"""Whom a validator admits to its cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Policy(StrEnum):
    """Who is admitted when it passes a probe."""

    OPEN = "open"  # whoever asks
    LISTED = "listed"  # who was named with ``assay validator admit``
    CLOSED = "closed"  # nobody else


@dataclass(frozen=True, slots=True)
class Admission:
    """The policy, and what was said of single providers: true to admit, false to dismiss."""

    policy: Policy = Policy.OPEN
    named: Mapping[str, bool] = field(default_factory=dict)

    def problem(self, address: str) -> str:
        """Return why a provider that asks is not admitted, or an empty string."""
        if self.named.get(address) is False:
            return "this validator has dismissed you"
        if self.policy is Policy.CLOSED:
            return "this validator admits nobody now"
        if self.policy is Policy.LISTED and address not in self.named:
            return "this validator admits whom it has listed: ask its operator to list you"
        return ""
