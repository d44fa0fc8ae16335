"""The recomputation of places in the tier ``sampled``: the same as in ``exact``."""

from dataclasses import replace

from pol.rules.tiers.sampled import SAMPLED
from validator.work.checks.check import Checks
from validator.work.checks.exact import EXACT_CHECKS

SAMPLED_CHECKS: Checks = replace(EXACT_CHECKS, tier=SAMPLED.name)
