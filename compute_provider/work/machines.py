"""The machines of a provider: that of its daemon, or its owner's cluster (:mod:`compute_provider.work.elsewhere`)."""

from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import Protocol

from compute_provider.work.bench import Speed, limits_here, measure_speed, what_computes
from compute_provider.work.prober import ProbeTask, probing
from compute_provider.work.trainer import IDLE_SECONDS, Listen, SandboxedTrainer, Trainer, recompute_segment
from compute_provider.work.worker import WorkOrder
from pol.executor.names import Engine
from pol.work.cluster.dispatch import NodeReport
from pol.work.records import Boundary


class Machines(Trainer, Protocol):
    """The machines that train for a provider's daemon, answer its probes, and recompute its segments."""

    @property
    def slots(self) -> int:
        """Number of shares that may be trained at once now."""
        ...

    @property
    def nodes(self) -> tuple[NodeReport, ...]:
        """The nodes of a cluster; empty for this machine."""
        ...

    @property
    def limits(self) -> str:
        """The place of measurements, in words. A speed that was measured within other limits does not count."""
        ...

    def measure(self, seconds: float, stop: Event | None = None) -> Speed:
        """Measure for about ``seconds`` the speed that one share gets while all slots train.

        ProviderError if the back end does not work, or ``stop`` is set.
        """
        ...

    def computing(self, stop: Event | None = None) -> str:
        """Return the back end and the limits in words; ProviderError as in :meth:`measure`."""
        ...

    def probing(self, stop: Event) -> AbstractContextManager[ProbeTask]:
        """Return a context with the function that computes tasks of a probe on all machines."""
        ...

    def recompute(self, order: WorkOrder, segment: int, home: Path) -> Boundary | None:
        """Recompute a segment of a trained share; return the boundary after it, None if that fails.

        ``home`` must be a folder for this call alone; it is deleted.
        """
        ...


class ThisMachine(SandboxedTrainer):
    """The machine of the daemon, which trains one share at a time."""

    slots = 1
    nodes = ()

    def __init__(self, listen: Listen, home: Path, engine: Engine, idle_seconds: float = IDLE_SECONDS) -> None:
        """Train as :class:`SandboxedTrainer` does, and measure with ``engine``."""
        super().__init__(listen, home, idle_seconds)
        self._engine = engine

    @property
    def limits(self) -> str:
        """The limits of this process; see :class:`Machines`."""
        return limits_here()

    def measure(self, seconds: float, stop: Event | None = None) -> Speed:
        """Measure this machine; see :class:`Machines`."""
        return measure_speed(self._engine, seconds, stop)

    def computing(self, stop: Event | None = None) -> str:
        """Return what computes here; see :class:`Machines`."""
        return what_computes(self._engine, stop)

    def probing(self, stop: Event) -> AbstractContextManager[ProbeTask]:
        """Start the process that computes a probe; see :class:`Machines`."""
        return probing(self._engine, stop)

    def recompute(self, order: WorkOrder, segment: int, home: Path) -> Boundary | None:
        """Recompute a segment in a process of its own; see :class:`Machines`."""
        return recompute_segment(order, segment, home)
