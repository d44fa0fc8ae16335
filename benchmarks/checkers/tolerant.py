"""The tier ``tolerance`` as a column of the matrix: segments in hardware arithmetic, judged by distances.

The adversaries make their claims of a twin of the job, which is trained in hardware arithmetic on another machine than
the checker's: its sums are in another order. The twin has thresholds that were measured here, with the default margin.
Its first layer has no bias: in front of a normalisation, the gradient of a bias is zero, so honest runs differ by more
than any threshold admits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from benchmarks.checkers.checker import Draw
from benchmarks.checkers.exact import Panels, panel_draw
from benchmarks.figures import Row
from pol.executor.names import NATIVE, Engine
from pol.executor.segment_backend import segment_backend
from pol.job.load import load_job
from pol.replay.calibrate import judge, measure
from pol.replay.consent import add_tolerance
from pol.replay.controls import find_controls
from pol.replay.profile import Profile
from pol.rules.tiers.tier import Tier
from pol.rules.tiers.tolerance import TOLERANCE
from pol.rules.tolerance import TIER_NAME
from tests.security.setting import Claim, Setting, make_setting
from validator.work.checks.tolerance import TOLERANCE_CHECKS

ENGINE: Final = Engine(NATIVE, threads=1)
PROFILED: Final = 16
"""Segments of which the thresholds are measured."""


@dataclass(frozen=True)
class Twin:
    """The setting of a job in hardware arithmetic, and the profile from which its thresholds come."""

    setting: Setting
    profile: Profile


def make_twin(setting: Setting, segments: int = PROFILED) -> Twin:
    """Build the twin of a job, measure it in hardware arithmetic, and give it the thresholds."""
    folder = setting.directory.parent / "tolerant"
    folder.mkdir()
    twin = make_setting(folder, setting.rounds, bias=False)
    profile = measure(twin.directory, find_controls(), segments=segments, random=Random(1)).profile()
    add_tolerance(twin.directory, profile)
    loaded = load_job(twin.directory)
    there = segment_backend(loaded.job.document, ENGINE, hardware=True, other=True)
    return Twin(replace(twin, loaded=loaded, trainer=there, elsewhere=there, _honest=[]), profile)


@dataclass(frozen=True)
class Tolerant:
    """The check of the tier: the draws of a tier with a panel for every round, and distances in place of roots."""

    tier: Tier = TOLERANCE

    @property
    def name(self) -> str:
        """The name of the column."""
        return TIER_NAME

    def examine(self, setting: Setting, claim: Claim) -> Draw:
        """Return a function that judges a claim of the twin, given a beacon."""
        return panel_draw(setting, claim, Panels(self.tier), TOLERANCE_CHECKS)


def tolerant_rows(twin: Twin, segments: int) -> Iterator[Row]:
    """Run honest segments under hardware controls, and yield the number of pairs that the thresholds reject.

    ``segments`` is the number of runs of a segment, divided among the controls.
    """
    controls = find_controls()
    count = max(1, segments // len(controls))
    measured = measure(twin.setting.directory, controls, segments=count, random=Random(2))
    rejected = judge(twin.profile, measured).rejected
    pairs, runs = len(measured.comparisons), len(measured.places) * len(measured.controls)
    name = f"{TIER_NAME}: {runs:,} honest segments under {len(measured.controls)} hardware controls: rejected of "
    yield Row(
        f"{name}{pairs:,} pairs",
        len(rejected),
        "rejected",
        details={"pairs": pairs, "segments": len(measured.places), "controls": len(measured.controls)},
    )
