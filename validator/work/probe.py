"""The check of a provider's probe: its drawn pieces are recomputed and compared."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pol.executor.names import Engine
from validator.decide import actions as do
from validator.decide.probe import ProbeResult
from validator.work import numerics
from validator.work.perform import Table
from validator.work.requests import ProbeSample

_log = logging.getLogger("assay.validator")


RunProbe = Callable[[Callable[[ProbeSample], tuple[bytes, ...]], ProbeSample], tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class ProbeChecker:
    """The checker of probes.

    ``run`` runs a function in the pool. ``judge`` takes a probe's result and whether it is right.
    """

    run: RunProbe
    engine: Engine
    judge: Callable[[ProbeResult, bool], None]

    def table(self) -> Table:
        """Return the functions that carry out the actions about probes, by the action's class."""
        return {do.CheckProbe: self.check}

    def check(self, action: do.CheckProbe) -> None:
        """Recompute the drawn pieces of a probe, and compare the digests."""
        measured = action.measured
        pieces = tuple(piece for piece, _ in measured.sample)
        digests = self.run(numerics.probe_pieces, ProbeSample(measured.seed, pieces, self.engine))
        right = digests == tuple(digest for _, digest in measured.sample)
        if not right:
            _log.warning("provider %s gave wrong answers to a probe", measured.provider)
        self.judge(measured, right)
