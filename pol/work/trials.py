"""The result of a trial of a job. A daemon evaluates it without running anything."""

from dataclasses import dataclass

from domain.market.records import JobTerms


@dataclass(frozen=True, slots=True)
class TrialTimes:
    """The times that a trial of a job took, in microseconds of one core: one segment, and one aggregation.

    ``speed`` is the measured speed of one core of the machine, in FLOP/s. ``close`` is the time of the program
    ``close`` at a share's end; it is 0 if the job has none.
    """

    segment: int
    outer: int
    speed: int
    close: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the terms of the job, if it loads, and either the times or the reason to decline it.

    ``decline`` is a LegEnd, or 0 if there is no reason to decline the job. ``text`` explains the reason.
    """

    terms: JobTerms | None = None
    times: TrialTimes | None = None
    decline: int = 0
    text: str = ""
