"""What came of a trial of a job: values, which a daemon judges without running anything."""

from dataclasses import dataclass

from domain.market.records import JobTerms


@dataclass(frozen=True, slots=True)
class TrialTimes:
    """What a trial of a job took: microseconds of one core for a segment and for an aggregation.

    ``speed`` is what the machine does otherwise, in FLOP/s.
    """

    segment: int
    outer: int
    speed: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a trial: the terms of the job, if it loads; how long it took, or why nobody should run it.

    ``decline`` is an LegEnd, 0 where there is nothing against the job.
    """

    terms: JobTerms | None = None
    times: TrialTimes | None = None
    decline: int = 0
    text: str = ""
