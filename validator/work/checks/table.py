"""The checks that this software has, one value for each tier."""

from collections.abc import Mapping
from types import MappingProxyType

from validator.work.checks.check import Checks
from validator.work.checks.exact import EXACT_CHECKS

CHECKS: Mapping[str, Checks] = MappingProxyType({found.tier: found for found in (EXACT_CHECKS,)})
"""By the tier's name."""


def checks_of(tier: str) -> Checks:
    """Return how the places of a leg in this tier are recomputed."""
    return CHECKS[tier]
