"""The checks of the tier ``replicated``: those of ``exact``, because its findings agree if their roots are equal."""

from dataclasses import replace

from pol.rules.tiers.replicated import REPLICATED
from validator.work.checks.check import Checks
from validator.work.checks.exact import EXACT_CHECKS

REPLICATED_CHECKS: Checks = replace(EXACT_CHECKS, tier=REPLICATED.name)
