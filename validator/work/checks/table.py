"""The table of all checks, one entry per tier."""

from collections.abc import Mapping
from types import MappingProxyType

from validator.work.checks.check import Checks
from validator.work.checks.exact import EXACT_CHECKS
from validator.work.checks.replicated import REPLICATED_CHECKS
from validator.work.checks.sampled import SAMPLED_CHECKS
from validator.work.checks.tolerance import TOLERANCE_CHECKS

CHECKS: Mapping[str, Checks] = MappingProxyType(
    {checks.tier: checks for checks in (EXACT_CHECKS, SAMPLED_CHECKS, REPLICATED_CHECKS, TOLERANCE_CHECKS)}
)
"""The checks of each tier, by the tier's name."""


def checks_of(tier: str) -> Checks:
    """Return the checks of a tier."""
    return CHECKS[tier]
