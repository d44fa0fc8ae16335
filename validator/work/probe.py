"""Working out the pieces of a probe that were drawn."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from validator.decide import actions as do
from validator.decide.probe import ProbeResult
from validator.work import numerics
from validator.work.perform import Table
from validator.work.requests import ProbeSample

_log = logging.getLogger("assay.validator")


RunProbe = Callable[[Callable[[ProbeSample], tuple[bytes, ...]], ProbeSample], tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class ProbeChecker:
    """``run`` has something done in the pool, and ``judge`` is told whether a provider's answer is right."""

    run: RunProbe
    backend: str
    judge: Callable[[ProbeResult, bool], None]

    def table(self) -> Table:
        """Return how these actions are carried out."""
        return {do.CheckProbe: self.check}

    def check(self, action: do.CheckProbe) -> None:
        """Compare the drawn pieces."""
        measured = action.measured
        pieces = tuple(piece for piece, _ in measured.sample)
        found = self.run(numerics.probe_pieces, ProbeSample(measured.seed, pieces, self.backend))
        right = found == tuple(digest for _, digest in measured.sample)
        if not right:
            _log.warning("%s answered a probe wrongly", measured.provider)
        self.judge(measured, right)
